use std::str::FromStr;
use std::time::Duration;

use crate::secret::MASK;
use crate::url::is_secret;
use crate::{Error, ErrorKind, Host, LockUrl, Result, Secret};

/// Reads a [`LockUrl`] into a typed configuration: ask for every part that the backend uses, then [`finish`](Self::finish).
///
/// What nobody asked for is an error then, so that no password, path or misspelt option is ignored in silence.
///
/// ```
/// # use std::time::Duration;
/// # use lock_core::LockUrl;
/// let url: LockUrl = "file:/run/lock/app?shared=true&poll=500ms".parse()?;
/// let mut settings = url.settings();
/// let directory = settings.path().to_owned();
/// let shared = settings.flag("shared")?.unwrap_or(false);
/// let poll = settings.duration("poll")?.unwrap_or(Duration::from_secs(1));
/// settings.finish()?;
/// # assert_eq!((directory.as_str(), shared, poll), ("/run/lock/app", true, Duration::from_millis(500)));
/// # Ok::<(), lock_core::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "`finish` refuses what was not asked for"]
pub struct Settings<'a> {
    url: &'a LockUrl,
    asked: Asked,
    options: Vec<&'static str>,
}

#[derive(Debug, Default)]
struct Asked {
    user: bool,
    password: bool,
    hosts: bool,
    path: bool,
}

impl<'a> Settings<'a> {
    pub(crate) fn new(url: &'a LockUrl) -> Self {
        Self { url, asked: Asked::default(), options: Vec::new() }
    }

    /// The user, if there is one.
    pub fn user(&mut self) -> Option<&'a str> {
        self.asked.user = true;
        self.url.user()
    }

    /// The password, if there is one.
    pub fn password(&mut self) -> Option<&'a Secret> {
        self.asked.password = true;
        self.url.password()
    }

    /// The hosts, which may be none.
    pub fn hosts(&mut self) -> &'a [Host] {
        self.asked.hosts = true;
        self.url.hosts()
    }

    /// The path with its leading slash, or nothing.
    pub fn path(&mut self) -> &'a str {
        self.asked.path = true;
        self.url.path()
    }

    /// The option `name` as it is.
    pub fn text(&mut self, name: &'static str) -> Option<&'a str> {
        self.options.push(name);
        self.url.options().find(|(given, _)| *given == name).map(|(_, value)| value)
    }

    /// The option `name` as `true` or `false`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] when it is neither.
    pub fn flag(&mut self, name: &'static str) -> Result<Option<bool>> {
        self.read(name, "true or false", |text| text.parse().ok())
    }

    /// The option `name` as a duration such as `500ms` or `1m 30s`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] when it is none.
    pub fn duration(&mut self, name: &'static str) -> Result<Option<Duration>> {
        self.read(name, "a duration such as 500ms or 30s", |text| humantime::parse_duration(text).ok())
    }

    /// The option `name` as any type that is read from text; `expected` is for the error, as "a number from 1 to 9".
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] when the type refuses it.
    pub fn parse<T: FromStr>(&mut self, name: &'static str, expected: &str) -> Result<Option<T>> {
        self.read(name, expected, |text| text.parse().ok())
    }

    fn read<T>(&mut self, name: &'static str, expected: &str, parse: impl Fn(&str) -> Option<T>) -> Result<Option<T>> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let shown = if is_secret(name) { MASK } else { text };
        parse(text).map(Some).ok_or_else(|| self.invalid(format!("option {name:?} is {shown:?}; expected {expected}")))
    }

    /// Refuses what was not asked for.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] for the first part or option that nobody asked for, with the options that are known.
    pub fn finish(self) -> Result<()> {
        let surplus = |asked: bool, given: bool| given && !asked;
        if surplus(self.asked.user, self.url.user().is_some()) {
            return Err(self.invalid("it takes no user".to_owned()));
        }
        if surplus(self.asked.password, self.url.password().is_some()) {
            return Err(self.invalid("it takes no password".to_owned()));
        }
        if let Some(host) = self.url.hosts().first().filter(|_| !self.asked.hosts) {
            return Err(self.invalid(format!("it takes no host, and here is {:?}", host.to_string())));
        }
        if surplus(self.asked.path, !self.url.path().is_empty()) {
            return Err(self.invalid(format!("it takes no path, and here is {:?}", self.url.path())));
        }
        match self.url.options().find(|(given, _)| !self.options.contains(given)) {
            None => Ok(()),
            Some((name, _)) if self.options.is_empty() => Err(self.invalid(format!("no option {name:?}; it has none"))),
            Some((name, _)) => {
                Err(self.invalid(format!("no option {name:?}; the options are {}", self.options.join(", "))))
            }
        }
    }

    fn invalid(&self, why: String) -> Error {
        Error::new(ErrorKind::InvalidConfig, format!("{}: URL: {why}", self.url.scheme()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> LockUrl {
        text.parse().unwrap()
    }

    #[test]
    fn options_are_read_by_type() {
        let url = url("test://h?on=true&off=false&wait=1m%2030s&n=7&name=a%26b");
        let mut settings = url.settings();
        assert_eq!(settings.hosts().len(), 1);
        assert_eq!(settings.flag("on").unwrap(), Some(true));
        assert_eq!(settings.flag("off").unwrap(), Some(false));
        assert_eq!(settings.duration("wait").unwrap(), Some(Duration::from_secs(90)));
        assert_eq!(settings.parse("n", "a digit").unwrap(), Some(7_u8));
        assert_eq!(settings.text("name"), Some("a&b"));
        assert_eq!(settings.text("absent"), None);
        settings.finish().unwrap();
    }

    #[test]
    fn a_bad_value_is_named_with_what_is_expected() {
        let url = url("test:?on=yes&wait=30&n=x&proxy_password=hunter2");
        let mut settings = url.settings();
        for (error, expected) in [
            (settings.flag("on").unwrap_err(), "test: URL: option \"on\" is \"yes\"; expected true or false"),
            (
                settings.duration("wait").unwrap_err(),
                "option \"wait\" is \"30\"; expected a duration such as 500ms or 30s",
            ),
            (settings.parse::<u8>("n", "a digit").unwrap_err(), "option \"n\" is \"x\"; expected a digit"),
            (settings.parse::<u8>("proxy_password", "a digit").unwrap_err(), "is \"***\"; expected"),
        ] {
            assert_eq!(error.kind(), ErrorKind::InvalidConfig);
            assert!(error.to_string().contains(expected), "{error}");
        }
    }

    #[test]
    fn what_nobody_asked_for_is_refused() {
        for (text, expected) in [
            ("test://me@", "test: URL: it takes no user"),
            ("test://:hunter2@", "it takes no password"),
            ("test://h:1,i", "it takes no host, and here is \"h:1\""),
            ("test:/p", "it takes no path, and here is \"/p\""),
            ("test:?b=1", "no option \"b\"; it has none"),
        ] {
            let error = url(text).settings().finish().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidConfig);
            assert!(error.to_string().contains(expected), "{error}");
        }
    }

    #[test]
    fn an_unknown_option_is_answered_with_the_known_ones() {
        let url = url("test:?pol=1s");
        let mut settings = url.settings();
        assert_eq!(settings.flag("shared").unwrap(), None);
        assert_eq!(settings.duration("poll").unwrap(), None);
        let error = settings.finish().unwrap_err();
        assert_eq!(error.to_string(), "test: URL: no option \"pol\"; the options are shared, poll");
    }
}
