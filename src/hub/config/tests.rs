//! Variables in filters.

#![allow(clippy::unwrap_used)]

use super::*;

#[test]
fn variables_in_filters_are_replaced_or_fail_their_server() {
    let look_up = |name: &str| (name == "DN").then(|| "pay".to_owned());
    let of = |members: &str| {
        let text = format!(r#"{{"mcpServers": {{"a": {{"command": "x", {members}}}}}}}"#);
        Config::with_environment(&text, &look_up)
            .map(|mut config| config.entries.remove(0).spec.map(|spec| spec.names))
    };
    for (members, denied) in [
        (r#""disabledTools": ["${DN}"]"#, ["pay"]),
        (r#""excludeTools": ["${OTHER:-x}_*"]"#, ["x_*"]),
        (r#""tools": {"deny": ["${env:DN}_2"]}"#, ["pay_2"]),
        (r#""toolFilter": {"mode": "block", "list": ["a${DN}"]}"#, ["apay"]),
    ] {
        assert_eq!(of(members).unwrap().unwrap().denied, denied);
    }
    for (members, why) in [
        (r#""disabledTools": ["${OTHER}"]"#, "environment variable OTHER is not set"),
        (r#""disabledTools": ["${DN"]"#, "must begin the name of a variable"),
        (r#""disabledTools": ["${DN%/}"]"#, "must begin the name of a variable"),
        (r#""includeTools": ["${OTHER}"]"#, "environment variable OTHER is not set"),
        (r#""tools": {"rename": {"${OTHER}": "x"}}"#, "environment variable OTHER is not set"),
        (r#""prefix": "${OTHER}""#, "environment variable OTHER is not set"),
        (r#""disabledTools": 1"#, "must be an array of strings"),
        (r#""disabledTools": [null]"#, "must be an array of strings"),
    ] {
        let error = of(members).unwrap().unwrap_err();
        assert!(error.contains(why), "{members}: {error}");
    }
}
