//! Variables in entries of servers.

#![allow(clippy::unwrap_used)]

use super::*;

#[test]
fn variables_in_filters_are_replaced_or_fail_their_server() {
    let look_up = |name: &str| (name == "DN").then(|| "pay".to_owned());
    let of = |members: &str| {
        let text = format!(r#"{{"mcpServers": {{"a": {{"command": "x", {members}}}}}}}"#);
        Config::with_environment(&text, &look_up)
            .map(|mut config| config.servers.remove(0).1.map(|spec| spec.names))
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
        (r#""disabledTools": ["${DN"]"#, "expected `}` after `${`"),
        (r#""includeTools": ["${OTHER}"]"#, "environment variable OTHER is not set"),
        (r#""tools": {"rename": {"${OTHER}": "x"}}"#, "environment variable OTHER is not set"),
        (r#""prefix": "${OTHER}""#, "environment variable OTHER is not set"),
        (r#""disabledTools": null"#, "must be an array of strings"),
        (r#""toolFilter": null"#, "must be an object"),
    ] {
        let error = of(members).unwrap().unwrap_err();
        assert!(error.contains(why), "{members}: {error}");
    }
}

#[test]
fn a_variable_of_the_environment_precedes_that_of_an_editor() {
    let look_up = |name: &str| (name == "workspaceFolder").then(|| "/chosen".to_owned());
    let chosen = format!("/chosen{}a", std::path::MAIN_SEPARATOR);
    assert_eq!(expand("${workspaceFolder}${/}a", &look_up), Ok(chosen));
    let empty = |_: &str| Some(String::new());
    assert_eq!(expand("${workspaceFolder}", &empty), Ok(String::new()));
}
