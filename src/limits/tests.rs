//! Variables of limits, and their ranges.

#![allow(clippy::expect_used)]
use super::*;

#[test]
fn only_misspelt_limits_are_unknown() {
    for (name, unknown) in [
        ("TINYMCP_RESTART", true),
        ("TINYMCP_RESTARTS", false),
        ("TINYMCP_CONFIG", false),
        ("TINYMCP_INPUT_API_KEY", false),
        ("TINYMCP_TOKEN_127_0_0_1", false),
        ("RESTARTS", false),
    ] {
        assert_eq!(Limits::is_unknown(name), unknown, "{name}");
    }
}

#[test]
fn every_variable_is_read_and_range_checked() {
    for setting in Limits::settings() {
        let with =
            |text: String| Limits::from_lookup(|name| (name == setting.variable).then(|| text.clone()));
        // At least one of the two values is not the default.
        let changed = [1, 2].map(|more| with((setting.range.start() + more).to_string()).expect("in range"));
        assert!(changed.iter().any(|limits| *limits != Limits::default()), "{}", setting.variable);
        let mut bad = vec!["".to_string(), "x".into(), "-1".into(), "1.5".into()];
        if *setting.range.start() > 0 {
            bad.push((setting.range.start() - 1).to_string());
        }
        if *setting.range.end() < u64::MAX {
            bad.push((setting.range.end() + 1).to_string());
        }
        for text in bad {
            let error = with(text.clone()).expect_err(&text);
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().contains(setting.variable), "{error}");
        }
    }
}

#[test]
fn numbers_beyond_32_bits_are_not_truncated() {
    const FAR: u64 = 1 << 32;
    for setting in Limits::settings() {
        let with = |n: u64| Limits::from_lookup(|name| (name == setting.variable).then(|| n.to_string()));
        // The result if the number were truncated.
        let cut = with(*setting.range.start() + 1).expect("in range");
        match with(FAR + *setting.range.start() + 1) {
            Ok(limits) => assert_ne!(limits, cut, "{}", setting.variable),
            Err(error) => {
                assert_eq!((error.kind(), *setting.range.end() < FAR), (ErrorKind::Invalid, true))
            }
        }
        with(*setting.range.end()).expect("in range");
    }
    let space = |n: u64| {
        Limits::from_lookup(|name| (name == "TINYMCP_ADDRESS_SPACE").then(|| n.to_string()))
            .map(|limits| limits.address_space)
    };
    for n in [FAR, FAR + 1, u64::MAX] {
        assert_eq!(space(n).ok(), Some(n));
    }
}

#[test]
fn times_beyond_32_bits_that_are_set_in_code_are_clamped() {
    for far in [Duration::from_millis(1 << 32), Duration::from_secs(1 << 32), Duration::MAX] {
        let mut limits = Limits::default();
        (limits.handler_deadline, limits.grace, limits.client_input_timeout) = (far, far, far);
        #[cfg(feature = "http-server")]
        {
            limits.http.session_timeout = far;
        }
        let limits = limits.clamped();
        let most = Duration::from_millis(MAX_MS);
        assert_eq!((limits.handler_deadline, limits.grace, limits.client_input_timeout), (most, most, most));
        #[cfg(feature = "http-server")]
        assert!(limits.http.session_timeout >= most);
    }
}

#[test]
fn without_variables_the_limits_are_the_defaults() {
    assert_eq!(Limits::from_lookup(|_| None).ok(), Some(Limits::default()));
}
