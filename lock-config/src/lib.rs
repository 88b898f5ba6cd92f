//! From a URL to a lock client.
