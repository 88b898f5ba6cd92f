use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::secret::MASK;
use crate::{Error, ErrorKind, Result, Secret, Settings};

/// Where a lock service is and how to use it: the one URL grammar of all backends.
///
/// ```text
/// scheme://[user[:password]@][host[:port]{,host[:port]}][/path][?option=value{&option=value}]
/// scheme:[/path][?option=value{&option=value}]
/// ```
///
/// User, password, path and options are percent-decoded. An IPv6 address stands in brackets. The characters `@` and `#` are
/// written `%40` and `%23` wherever they are part of a value, so that no slip turns a piece of a password into a path.
///
/// The password is masked in `Debug`, `Display` and every error, and so are options whose names end in `password`. Otherwise
/// `Display` gives a text that parses to the same URL.
///
/// ```
/// use lock_core::LockUrl;
///
/// let url: LockUrl = "redis://app:s3cret@10.0.0.1:6379,10.0.0.2/0?timeout=500ms".parse()?;
/// assert_eq!(url.hosts()[1].name(), "10.0.0.2");
/// assert_eq!(url.to_string(), "redis://app:***@10.0.0.1:6379,10.0.0.2/0?timeout=500ms");
/// # Ok::<(), lock_core::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct LockUrl {
    scheme: String,
    user: Option<String>,
    password: Option<Secret>,
    hosts: Vec<Host>,
    path: String,
    options: Vec<(String, String)>,
}

/// One host of a [`LockUrl`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Host {
    name: String,
    port: Option<u16>,
}

impl Host {
    /// The name or address, an IPv6 address without its brackets.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The port, if the URL names one.
    pub fn port(&self) -> Option<u16> {
        self.port
    }
}

impl LockUrl {
    /// The scheme, in lower case.
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// The user, if there is one.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// The password, if there is one. It may be empty.
    pub fn password(&self) -> Option<&Secret> {
        self.password.as_ref()
    }

    /// The hosts, in the order of the URL.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// The path with its leading slash, or nothing.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The names and values of the options, in the order of the URL.
    pub fn options(&self) -> impl Iterator<Item = (&str, &str)> {
        self.options.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Reads the URL into a typed configuration, and refuses what nobody asked for.
    pub fn settings(&self) -> Settings<'_> {
        Settings::new(self)
    }
}

impl FromStr for LockUrl {
    type Err = Error;

    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`], naming the part that is wrong.
    fn from_str(text: &str) -> Result<Self> {
        Text(text).parse().map_err(|why| Error::new(ErrorKind::InvalidConfig, format!("lock URL: {why}")))
    }
}

/// The text of a URL while it is taken apart.
#[derive(Clone, Copy)]
struct Text<'a>(&'a str);

type Parsed<T> = std::result::Result<T, String>;

impl Text<'_> {
    fn parse(self) -> Parsed<LockUrl> {
        if let Some((at, c)) = self.0.char_indices().find(|(_, c)| c.is_control()) {
            return Err(format!("it has the control character {c:?} at byte {at}"));
        }
        let Some((scheme, rest)) = self.0.split_once(':') else {
            return Err(format!("{} has no scheme; expected something like file:/path", self.shown(self.0)));
        };
        let is_inner = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
        if !scheme.starts_with(|c: char| c.is_ascii_alphabetic()) || !scheme.chars().all(is_inner) {
            let shown = self.shown(scheme);
            return Err(format!("scheme {shown} is not a letter followed by letters, digits, '+', '-' or '.'"));
        }
        let (location, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = match location.strip_prefix("//") {
            Some(location) => location.split_at(location.find('/').unwrap_or(location.len())),
            None => ("", location),
        };
        let (userinfo, hosts) = authority.split_once('@').unwrap_or(("", authority));
        for (part, text) in [("user or password", userinfo), ("hosts", hosts), ("path", path), ("options", query)] {
            if text.contains(['@', '#']) {
                return Err(format!(
                    "there is an '@' or '#' in the {part}; write %40 and %23, and in a password %2F for '/' and %3F for '?'"
                ));
            }
        }
        if !path.is_empty() && !path.starts_with('/') {
            return Err(format!("the path after {} does not begin with '/'", self.shown(&format!("{scheme}:"))));
        }
        let (user, password) = self.userinfo(userinfo)?;
        Ok(LockUrl {
            scheme: scheme.to_ascii_lowercase(),
            user,
            password,
            hosts: self.hosts(hosts)?,
            path: self.decoded("path", path)?,
            options: self.options(query)?,
        })
    }

    fn userinfo(self, userinfo: &str) -> Parsed<(Option<String>, Option<Secret>)> {
        let (user, password) =
            userinfo.split_once(':').map_or((userinfo, None), |(user, password)| (user, Some(password)));
        let user = self.decoded("user", user)?;
        let password = password.map(|password| self.decoded("password", password)).transpose()?;
        Ok((Some(user).filter(|user| !user.is_empty()), password.map(Secret::new)))
    }

    fn hosts(self, hosts: &str) -> Parsed<Vec<Host>> {
        if hosts.is_empty() { Ok(Vec::new()) } else { hosts.split(',').map(|host| self.host(host)).collect() }
    }

    fn host(self, text: &str) -> Parsed<Host> {
        let (name, port) = match text.strip_prefix('[') {
            Some(bracketed) => {
                let address = bracketed.split_once(']').filter(|(address, _)| address.parse::<Ipv6Addr>().is_ok());
                address.ok_or_else(|| format!("host {} is no IPv6 address in brackets", self.shown(text)))?
            }
            None => {
                let (name, port) = text.split_at(text.find(':').unwrap_or(text.len()));
                if name.is_empty() {
                    return Err("a host is empty; expected host or host:port, with a comma between two".to_owned());
                }
                if let Some(c) = name.chars().find(|c| !(c.is_ascii_alphanumeric() || "-._".contains(*c))) {
                    return Err(format!("host {} has the character {c:?}, which no host name has", self.shown(name)));
                }
                (name, port)
            }
        };
        let port = if port.is_empty() { None } else { Some(self.port(name, port)?) };
        Ok(Host { name: name.to_owned(), port })
    }

    fn port(self, host: &str, text: &str) -> Parsed<u16> {
        let digits = text.strip_prefix(':').filter(|digits| digits.chars().all(|c| c.is_ascii_digit()));
        // A bad port is not shown: where the '@' and the host were forgotten, it is the password.
        digits.and_then(|digits| digits.parse().ok()).filter(|port| *port != 0).ok_or_else(|| {
            format!(
                "the port of host {} is no number from 1 to 65535; an IPv6 address stands in brackets, a password before '@'",
                self.shown(host)
            )
        })
    }

    fn options(self, query: &str) -> Parsed<Vec<(String, String)>> {
        let mut options = Vec::<(String, String)>::new();
        for option in query.split('&').filter(|_| !query.is_empty()) {
            let (name, value) = option
                .split_once('=')
                .filter(|(name, _)| !name.is_empty())
                .ok_or_else(|| format!("option {} is not of the form name=value", self.shown(option)))?;
            let name = self.decoded("name of an option", name)?;
            if options.iter().any(|(earlier, _)| *earlier == name) {
                return Err(format!("option {name:?} is given twice"));
            }
            let value = self.decoded(&format!("value of option {name:?}"), value)?;
            options.push((name, value));
        }
        Ok(options)
    }

    fn decoded(self, part: &str, text: &str) -> Parsed<String> {
        for (at, _) in text.match_indices('%') {
            let escape = text[at..].chars().take(3).collect::<String>();
            if escape.len() < 3 || !escape[1..].chars().all(|c| c.is_ascii_hexdigit()) {
                let shown = self.shown(&escape);
                return Err(format!("the {part} has {shown} where %XX with two hexadecimal digits is expected"));
            }
        }
        let decoded = percent_decode_str(text).decode_utf8().map_err(|_| format!("the {part} is not UTF-8"))?;
        match decoded.chars().find(|c| c.is_control()) {
            Some(c) => Err(format!("the {part} has the control character {c:?}")),
            None => Ok(decoded.into_owned()),
        }
    }

    /// The part for an error. Whatever stands before the last `@` may belong to a password and is not shown.
    fn shown(self, part: &str) -> String {
        let public = self.0.rsplit('@').next().unwrap_or_default();
        if public.contains(part) { format!("{part:?}") } else { MASK.to_owned() }
    }
}

/// What stands for itself in a user or password.
const IN_USER: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// What stands for itself in a path or an option.
const IN_PATH: &AsciiSet = &IN_USER.remove(b'/').remove(b':').remove(b',');

impl fmt::Display for LockUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.scheme)?;
        let has_user = self.user.is_some() || self.password.is_some();
        // Without an authority a path that begins with two slashes would read as one.
        if has_user || !self.hosts.is_empty() || self.path.starts_with("//") {
            f.write_str("//")?;
        }
        if let Some(user) = &self.user {
            write!(f, "{}", utf8_percent_encode(user, IN_USER))?;
        }
        if let Some(password) = &self.password {
            write!(f, ":{password}")?;
        }
        if has_user {
            f.write_str("@")?;
        }
        for (i, host) in self.hosts.iter().enumerate() {
            write!(f, "{}{host}", if i == 0 { "" } else { "," })?;
        }
        write!(f, "{}", utf8_percent_encode(&self.path, IN_PATH))?;
        for (i, (name, value)) in self.options().enumerate() {
            write!(f, "{}{}=", if i == 0 { '?' } else { '&' }, utf8_percent_encode(name, IN_PATH))?;
            if is_secret(name) { f.write_str(MASK)? } else { write!(f, "{}", utf8_percent_encode(value, IN_PATH))? }
        }
        Ok(())
    }
}

/// Whether the value of an option must not be shown.
pub(crate) fn is_secret(option: &str) -> bool {
    option.to_ascii_lowercase().ends_with("password")
}

impl fmt::Debug for LockUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LockUrl({self})")
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.contains(':') {
            write!(f, "[{}]", self.name)?
        } else {
            f.write_str(&self.name)?
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}
