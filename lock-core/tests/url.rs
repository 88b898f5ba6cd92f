//! The URL grammar: what is read, what is refused, and that a password is never shown.
use lock_core::{ErrorKind, LockUrl};
use proptest::prelude::*;

/// The parts of a URL as one line, the password exposed.
fn parts(url: &LockUrl) -> String {
    let mut parts = vec![url.scheme().to_owned()];
    parts.extend(url.user().map(|user| format!("user={user}")));
    parts.extend(url.password().map(|password| format!("password={}", password.expose())));
    parts.extend(url.hosts().iter().map(|host| match host.port() {
        Some(port) => format!("host={} port={port}", host.name()),
        None => format!("host={}", host.name()),
    }));
    parts.extend(Some(url.path()).filter(|path| !path.is_empty()).map(|path| format!("path={path}")));
    parts.extend(url.options().map(|(name, value)| format!("{name}={value}")));
    parts.join(" ")
}

#[test]
fn every_form_is_read_and_shown_masked() {
    for (text, expected, shown) in [
        ("file:", "file", "file:"),
        ("memory:?", "memory", "memory:"),
        ("FILE:/var/lib", "file path=/var/lib", "file:/var/lib"),
        ("file:///var/lib", "file path=/var/lib", "file:/var/lib"),
        ("file:////var", "file path=//var", "file:////var"),
        ("file:/a%20b%2Fc d", "file path=/a b/c d", "file:/a%20b/c%20d"),
        (
            "file:/x?shared=true&note=a=b%26c",
            "file path=/x shared=true note=a=b&c",
            "file:/x?shared=true&note=a%3Db%26c",
        ),
        ("file:?empty=", "file empty=", "file:?empty="),
        ("redis://h", "redis host=h", "redis://h"),
        ("redis://h/", "redis host=h path=/", "redis://h/"),
        ("redis://me@h:6379/0", "redis user=me host=h port=6379 path=/0", "redis://me@h:6379/0"),
        ("redis://me:pw@h", "redis user=me password=pw host=h", "redis://me:***@h"),
        ("redis://:pw@h", "redis password=pw host=h", "redis://:***@h"),
        ("redis://me:@h", "redis user=me password= host=h", "redis://me:***@h"),
        ("redis://m%40e:a%2F%40%3A@h", "redis user=m@e password=a/@: host=h", "redis://m%40e:***@h"),
        ("redis://a:b:c@h", "redis user=a password=b:c host=h", "redis://a:***@h"),
        ("redis://@h", "redis host=h", "redis://h"),
        (
            "etcd://a:1,b,10.0.0.3:65535/p",
            "etcd host=a port=1 host=b host=10.0.0.3 port=65535 path=/p",
            "etcd://a:1,b,10.0.0.3:65535/p",
        ),
        ("etcd://[::1]:2379,[fe80::2]", "etcd host=::1 port=2379 host=fe80::2", "etcd://[::1]:2379,[fe80::2]"),
        ("redis+unix:///run/redis.sock", "redis+unix path=/run/redis.sock", "redis+unix:/run/redis.sock"),
        ("redis+unix://:pw@/run/r", "redis+unix password=pw path=/run/r", "redis+unix://:***@/run/r"),
        ("x://h?Sentinel_Password=s3cret", "x host=h Sentinel_Password=s3cret", "x://h?Sentinel_Password=***"),
    ] {
        let url: LockUrl = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(parts(&url), expected, "{text}");
        assert_eq!(url.to_string(), shown, "{text}");
        assert_eq!(format!("{url:?}"), format!("LockUrl({shown})"), "{text}");
    }
}

#[test]
fn every_slip_is_refused_with_its_place_and_what_is_expected() {
    for (text, expected) in [
        ("", "\"\" has no scheme; expected something like file:/path"),
        ("localhost", "\"localhost\" has no scheme"),
        ("/var/lib", "has no scheme"),
        (":/x", "scheme \"\" is not a letter followed by"),
        ("1x:/y", "scheme \"1x\""),
        ("re_dis://h", "scheme \"re_dis\""),
        (" redis://h", "scheme \" redis\""),
        ("file:locks", "the path after \"file:\" does not begin with '/'"),
        ("file:~/locks", "the path after \"file:\""),
        ("file:/x\n", "control character '\\n' at byte 7"),
        ("file:/x%00", "the path has the control character '\\0'"),
        ("file:/x%zz", "the path has \"%zz\" where %XX"),
        ("file:/x%4", "the path has \"%4\" where %XX"),
        ("file:/%", "the path has \"%\" where %XX"),
        ("file:/%+1x", "the path has \"%+1\" where %XX"),
        ("file:/x%FF", "the path is not UTF-8"),
        ("file:/x#y", "'@' or '#' in the path; write %40 and %23"),
        ("redis://h/a@b", "'@' or '#' in the path"),
        ("redis://h?a=b@c", "'@' or '#' in the options"),
        ("redis://a#b@h", "'@' or '#' in the user or password"),
        ("redis://a:b@c@h", "'@' or '#' in the hosts"),
        ("redis://,", "a host is empty; expected host or host:port"),
        ("redis://a,,b", "a host is empty"),
        ("redis://a,", "a host is empty"),
        ("redis://:6379", "a host is empty"),
        ("redis://me@:6379", "a host is empty"),
        ("redis://h:", "port of host \"h\" is no number from 1 to 65535"),
        ("redis://h:0", "port of host \"h\""),
        ("redis://h:65536", "port of host \"h\""),
        ("redis://h:+80", "port of host \"h\""),
        ("redis://g,h:http", "port of host \"h\""),
        ("redis://fe80::1:6379", "an IPv6 address stands in brackets"),
        ("redis://[::1", "host \"[::1\" is no IPv6 address in brackets"),
        ("redis://[::g]", "host \"[::g]\" is no IPv6 address in brackets"),
        ("redis://[::1]6379", "port of host \"::1\""),
        ("redis://a b", "host \"a b\" has the character ' '"),
        ("redis://a%20b", "host \"a%20b\" has the character '%'"),
        ("redis://h\u{f6}st", "has the character '\u{f6}'"),
        ("file:?shared", "option \"shared\" is not of the form name=value"),
        ("file:?=true", "option \"=true\" is not of the form name=value"),
        ("file:?a=1&", "option \"\" is not of the form name=value"),
        ("file:?a=1&%61=2", "option \"a\" is given twice"),
        ("file:?a=%zz", "the value of option \"a\" has \"%zz\""),
        ("file:?a=%0A", "the value of option \"a\" has the control character '\\n'"),
    ] {
        let error = text.parse::<LockUrl>().expect_err(text);
        assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{text}");
        assert!(error.to_string().starts_with("lock URL: "), "{text}: {error}");
        assert!(error.to_string().contains(expected), "{text}: {error}");
    }
}

#[test]
fn an_error_never_shows_a_password_nor_what_may_be_one() {
    for text in [
        "hunter2@h",
        "default:hunter2",
        "hunter2_://h@h",
        "redis://default:hunter2",
        "redis://:hunter2",
        "redis://me:hunter2%zz@h",
        "redis://me:hunter2%FF@h",
        "redis://me:hunter2@h:port",
        "redis://me:hunter2/x@h",
        "redis://hunter2/x@h",
        "redis://me:hunter2?x@h",
        "redis://me:x@hunter2@h",
        "redis://me:x/hunter2@h",
        "redis://me:x?hunter2@h",
        "redis://me:x%0ahunter2@h",
    ] {
        let error = text.parse::<LockUrl>().expect_err(text);
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{text}: {error}");
    }
}

/// Text in which every special character of the grammar is frequent.
fn noise() -> impl Strategy<Value = String> {
    "([a-z0-9:/@?#&=%,\\[\\].+ é*\\-]|%[0-9a-f]{2}|://|\\PC){0,40}"
}

fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// A valid URL with the given password.
fn url_with(password: &'static str) -> impl Strategy<Value = String> {
    let host = "[a-z][a-z0-9.-]{0,6}(:[1-9][0-9]{0,3})?|\\[::[0-9a-f]{1,4}\\](:[1-9][0-9]{0,3})?";
    let hosts = proptest::collection::vec(host, 1..4).prop_map(|hosts| hosts.join(","));
    let options = proptest::collection::vec("\\PC{0,6}", 0..3).prop_map(|values| {
        let options: Vec<_> = values.iter().enumerate().map(|(i, value)| format!("o{i}={}", encoded(value))).collect();
        if options.is_empty() { String::new() } else { format!("?{}", options.join("&")) }
    });
    ("[a-z]{2,5}", "\\PC{0,4}", hosts, "\\PC{0,8}", options).prop_map(move |(scheme, user, hosts, path, options)| {
        format!("{scheme}://{}:{}@{hosts}/{}{options}", encoded(&user), encoded(password), encoded(&path))
    })
}

proptest! {
    #[test]
    fn no_text_makes_it_panic_and_what_is_read_survives_display(text in noise()) {
        if let Ok(url) = text.parse::<LockUrl>()
            && url.password().is_none()
        {
            prop_assert_eq!(url.to_string().parse::<LockUrl>().unwrap(), url);
        }
    }

    #[test]
    fn a_url_survives_display_but_for_its_password(text in url_with("***")) {
        let url: LockUrl = text.parse().unwrap();
        prop_assert_eq!(url.to_string().parse::<LockUrl>().unwrap(), url);
    }

    #[test]
    fn a_password_is_never_shown(text in url_with("hunter2")) {
        let url: LockUrl = text.parse().unwrap();
        prop_assert_eq!(url.password().unwrap().expose(), "hunter2");
        let shown = format!("{url} {url:?}");
        prop_assert!(!shown.contains("hunter2"), "{}", shown);
    }

    #[test]
    fn no_single_slip_lets_an_error_show_the_password(
        text in url_with("hunter2"), at in any::<prop::sample::Index>(), slip in "[@:/?#%,\\[ ]?", replace in any::<bool>(),
    ) {
        let at = at.index(text.len());
        // Every character of the text is ASCII: the rest is percent-encoded.
        let broken = format!("{}{slip}{}", &text[..at], &text[at + usize::from(replace)..]);
        if let Err(error) = broken.parse::<LockUrl>() {
            let shown = format!("{error} {error:?}");
            prop_assert!(!shown.contains("hunter2"), "{}: {}", broken, shown);
        }
    }
}
