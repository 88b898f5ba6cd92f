//! How moments and kinds of errors stand in JSON.

/// A moment as nanoseconds since the machine's start.
pub(crate) mod nanoseconds {
    use std::time::Duration;

    use lock_core::BootTime;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(at: &BootTime, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(u64::try_from(at.since_boot().as_nanos()).unwrap_or(u64::MAX))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<BootTime, D::Error> {
        u64::deserialize(from).map(|nanoseconds| BootTime::from_boot(Duration::from_nanos(nanoseconds)))
    }
}

/// An error's kind by its name.
pub(crate) mod kind {
    use lock_core::ErrorKind;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    const KINDS: [ErrorKind; 10] = [
        ErrorKind::Timeout,
        ErrorKind::Lost,
        ErrorKind::Unavailable,
        ErrorKind::Denied,
        ErrorKind::Unsupported,
        ErrorKind::InvalidName,
        ErrorKind::InvalidConfig,
        ErrorKind::Closed,
        ErrorKind::TokenRegression,
        ErrorKind::Unexpected,
    ];

    pub(crate) fn serialize<S: Serializer>(kind: &ErrorKind, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(kind)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<ErrorKind, D::Error> {
        let name = String::deserialize(from)?;
        let found = KINDS.into_iter().find(|kind| kind.to_string() == name);
        found.ok_or_else(|| D::Error::custom(format!("{name:?} is no kind of error")))
    }
}
