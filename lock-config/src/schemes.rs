use lock_core::{Backend, Error, ErrorKind, Level, LockClient, LockClientBuilder, LockUrl, Result};

use crate::{Scheme, builtin};

/// The schemes that a program's lock URLs may have.
///
/// ```
/// use lock_config::Schemes;
/// use lock_core::{LockUrl, MemoryBackend, Result};
///
/// fn isolated(url: &LockUrl) -> Result<MemoryBackend> {
///     url.settings().finish()?;
///     Ok(MemoryBackend::new())
/// }
///
/// let schemes = Schemes::builtin().with("isolated", isolated);
/// let locks = schemes.builder("isolated:")?.build();
/// # Ok::<(), lock_core::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Schemes(Vec<Scheme>);

impl Schemes {
    /// None.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Those that come with this crate and whose feature is on.
    pub fn builtin() -> Self {
        Self(builtin::schemes())
    }

    /// Adds a scheme whose URLs `build` turns into backends, in the place of an earlier one of that name.
    ///
    /// `build` opens nothing and reads the URL through [`LockUrl::settings`], which refuses what it does not ask for.
    #[must_use]
    pub fn with<B: Backend>(
        self,
        name: impl Into<String>,
        build: impl Fn(&LockUrl) -> Result<B> + Send + Sync + 'static,
    ) -> Self {
        self.with_scheme(Scheme::new(name, build))
    }

    /// Adds a scheme, in the place of an earlier one of that name.
    #[must_use]
    pub fn with_scheme(mut self, scheme: Scheme) -> Self {
        match self.0.iter_mut().find(|earlier| earlier.name() == scheme.name()) {
            Some(earlier) => *earlier = scheme,
            None => self.0.push(scheme),
        }
        self
    }

    /// All of them: those of this crate first, then in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = &Scheme> {
        self.0.iter()
    }

    /// A client of the service that `url` describes, for settings of its own. Nothing is opened or looked at.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] when the URL can't be read or its scheme is not known, and what the backend refuses of it.
    pub fn builder(&self, url: &str) -> Result<LockClientBuilder> {
        self.builder_for(&url.parse()?)
    }

    fn builder_for(&self, url: &LockUrl) -> Result<LockClientBuilder> {
        match self.iter().find(|scheme| scheme.name() == url.scheme()) {
            Some(scheme) => scheme.builder(url),
            None => Err(self.unknown(url.scheme())),
        }
    }

    fn unknown(&self, scheme: &str) -> Error {
        let known = self.iter().map(Scheme::name).collect::<Vec<_>>().join(", ");
        let left_out = if builtin::LEFT_OUT.contains(&scheme) {
            format!(" (feature {scheme:?} of lock-config is off)")
        } else {
            String::new()
        };
        Error::new(
            ErrorKind::InvalidConfig,
            format!("lock URL: there is no scheme {scheme:?}{left_out}; the schemes are {known}"),
        )
    }

    /// A client of the service that `url` describes, after a look whether the service is there and fit for locks.
    ///
    /// A finding that promises less than one would expect is a tracing event of level WARN.
    ///
    /// # Errors
    ///
    /// As for [`builder`](Self::builder); Unavailable when the service gives no answer within the client's time for one call;
    /// the error of the first finding that makes locks impossible.
    ///
    /// # Cancel safety
    ///
    /// Dropping it closes what has been opened.
    pub async fn connect(&self, url: &str) -> Result<LockClient> {
        let url: LockUrl = url.parse()?;
        let locks = self.builder_for(&url)?.build();
        for finding in locks.preflight().await.map_err(|error| error.in_context(&url))? {
            let (check, found) = (finding.check, finding.found.as_str());
            let (consequence, remedy) = (finding.consequence.as_str(), finding.remedy.as_str());
            if finding.level == Level::Warning {
                tracing::event!(
                    name: "lock.finding", tracing::Level::WARN, %url, check, found, consequence, remedy,
                    "locks promise less than one would expect"
                );
            }
            if let Some(error) = finding.into_error() {
                return Err(error.in_context(url));
            }
        }
        Ok(locks)
    }
}

/// A client of the service that `url` describes, by the schemes that come with this crate.
///
/// # Errors
///
/// As for [`Schemes::connect`].
///
/// # Cancel safety
///
/// As for [`Schemes::connect`].
pub async fn connect(url: &str) -> Result<LockClient> {
    Schemes::builtin().connect(url).await
}
