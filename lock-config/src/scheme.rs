use std::fmt;
use std::sync::Arc;

use lock_core::{Backend, Capabilities, LockClient, LockClientBuilder, LockUrl, Result};

/// The first word of a URL, and the backend that it stands for.
#[derive(Clone)]
pub struct Scheme {
    name: String,
    about: String,
    example: String,
    build: Arc<Build>,
}

type Build = dyn Fn(&LockUrl) -> Result<LockClientBuilder> + Send + Sync;

impl Scheme {
    /// A scheme whose URLs `build` turns into backends.
    ///
    /// `build` opens nothing and reads the URL through [`LockUrl::settings`], which refuses what it does not ask for.
    pub fn new<B: Backend>(
        name: impl Into<String>,
        build: impl Fn(&LockUrl) -> Result<B> + Send + Sync + 'static,
    ) -> Self {
        let name = name.into().to_ascii_lowercase();
        let example = format!("{name}:");
        Self { name, about: String::new(), example, build: Arc::new(move |url| build(url).map(LockClient::builder)) }
    }

    /// Says in one line what the backend is.
    #[must_use]
    pub fn with_about(mut self, about: impl Into<String>) -> Self {
        self.about = about.into();
        self
    }

    /// Gives the plainest URL that works, where that is not the name and a colon.
    #[must_use]
    pub fn with_example(mut self, url: impl Into<String>) -> Self {
        self.example = url.into();
        self
    }

    /// The name, in lower case and without the colon.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the backend is, in one line; empty if nobody said.
    pub fn about(&self) -> &str {
        &self.about
    }

    /// The plainest URL.
    pub fn example(&self) -> &str {
        &self.example
    }

    /// What the backend of the plainest URL promises. Nothing is opened.
    ///
    /// # Errors
    ///
    /// What the backend refuses of the plainest URL, as a rule [`InvalidConfig`](lock_core::ErrorKind::InvalidConfig).
    pub fn capabilities(&self) -> Result<Capabilities> {
        Ok(self.builder(&self.example.parse()?)?.build().capabilities().clone())
    }

    pub(crate) fn builder(&self, url: &LockUrl) -> Result<LockClientBuilder> {
        (self.build)(url)
    }
}

impl fmt::Debug for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheme").field("name", &self.name).finish_non_exhaustive()
    }
}
