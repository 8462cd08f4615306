//! Command line of `tinymcp serve`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use lexopt::prelude::*;

use crate::Result;
use crate::options::{once, text, unknown, value};

/// Parsed options; one field for each option of `help.txt`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) files: Vec<PathBuf>,
    /// Address to listen on; standard input and output if absent.
    pub(crate) http: Option<String>,
    pub(crate) settings: HttpOptions,
    pub(crate) watch: bool,
    pub(crate) idle_exit: Option<Duration>,
    pub(crate) check: bool,
    /// Name of the host whose configuration is printed.
    pub(crate) print_config: Option<String>,
    pub(crate) schema: bool,
    pub(crate) help: bool,
}

/// Options of the HTTP server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HttpOptions {
    pub(crate) token_file: Option<PathBuf>,
    pub(crate) allow_host: Vec<String>,
    pub(crate) allow_origin: Vec<String>,
}

impl HttpOptions {
    /// The name of an option that was given.
    pub(crate) fn set_option(&self) -> Option<&'static str> {
        let given = [
            (self.token_file.is_some(), "--token-file"),
            (!self.allow_host.is_empty(), "--allow-host"),
            (!self.allow_origin.is_empty(), "--allow-origin"),
        ];
        given.iter().find(|(given, _)| *given).map(|(_, name)| *name)
    }
}

/// Long options.
const NAMES: &str = "http token-file allow-host allow-origin watch idle-exit check print-config schema help";

impl Options {
    /// Parses the arguments after `serve`. Options and files may be in any order.
    ///
    /// # Errors
    /// An option is unknown or malformed, options exclude each other, or there is no file.
    pub(crate) fn parse(args: Vec<OsString>) -> Result<Options> {
        let mut options = Options::default();
        let mut parser = lexopt::Parser::from_args(args);
        while let Some(arg) = parser.next().map_err(|e| e.to_string())? {
            match arg {
                Value(file) if file == "-" => {
                    return Err("a definition cannot be read from standard input; expected a file or folder"
                        .to_owned());
                }
                Value(file) if file.is_empty() => return Err("a file name must not be empty".to_owned()),
                Value(file) => options.files.push(file.into()),
                Short('h') => options.help = true,
                Short(other) => return Err(unknown(&format!("-{other}"), "serve", NAMES)),
                Long(name) => {
                    let Some(name) = NAMES.split(' ').find(|known| *known == name) else {
                        return Err(unknown(&format!("--{name}"), "serve", NAMES));
                    };
                    options.set(name, &mut parser)?;
                }
            }
        }
        if !options.help {
            options.validate()?;
        }
        Ok(options)
    }

    fn set(&mut self, name: &'static str, parser: &mut lexopt::Parser) -> Result<()> {
        match name {
            "http" => once(name, &mut self.http, text(parser)?),
            "token-file" => once(name, &mut self.settings.token_file, value(parser)?.into()),
            "allow-host" => {
                self.settings.allow_host.push(text(parser)?);
                Ok(())
            }
            "allow-origin" => {
                self.settings.allow_origin.push(text(parser)?);
                Ok(())
            }
            "idle-exit" => once(name, &mut self.idle_exit, seconds(&text(parser)?)?),
            "print-config" => once(name, &mut self.print_config, text(parser)?),
            flag => {
                let field = match flag {
                    "watch" => &mut self.watch,
                    "check" => &mut self.check,
                    "schema" => &mut self.schema,
                    "help" => &mut self.help,
                    other => return Err(unknown(&format!("--{other}"), "serve", NAMES)),
                };
                *field = true;
                Ok(())
            }
        }
    }

    fn validate(&self) -> Result<()> {
        let modes = [
            (self.check, "--check"),
            (self.print_config.is_some(), "--print-config"),
            (self.schema, "--schema"),
        ];
        let mut modes = modes.iter().filter(|(given, _)| *given).map(|(_, name)| *name);
        if let (Some(first), Some(second)) = (modes.next(), modes.next()) {
            return Err(format!("{first} and {second} exclude each other"));
        }
        if self.http.is_some() && self.idle_exit.is_some() {
            return Err("--http and --idle-exit exclude each other".to_owned());
        }
        if self.http.is_none() {
            if let Some(name) = self.settings.set_option() {
                return Err(format!("{name} requires --http"));
            }
        } else if cfg!(not(feature = "http-server")) {
            return Err("--http requires a program that was built with the feature `http-server`".to_owned());
        }
        if self.files.is_empty() && !self.schema {
            return Err("missing FILE; see `tinymcp help serve`".to_owned());
        }
        Ok(())
    }
}

fn seconds(number: &str) -> Result<Duration> {
    // 24 days: the largest time of a limit.
    match number.parse::<u32>() {
        Ok(seconds @ 1..=2_000_000) => Ok(Duration::from_secs(seconds.into())),
        _ => Err(format!("--idle-exit requires a whole number of seconds, 1 to 2000000, got {number:?}")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn parse(args: &[&str]) -> Result<Options> {
        Options::parse(args.iter().map(OsString::from).collect())
    }

    #[test]
    fn options_may_precede_and_follow_files() {
        let options = parse(&["a.json", "--watch", "b", "--allow-host", "h:1", "--http", "x", "--", "-c"]);
        if cfg!(feature = "http-server") {
            let expected = Options {
                files: vec!["a.json".into(), "b".into(), "-c".into()],
                http: Some("x".to_owned()),
                settings: HttpOptions { allow_host: vec!["h:1".to_owned()], ..HttpOptions::default() },
                watch: true,
                ..Options::default()
            };
            assert_eq!(options.unwrap(), expected);
        } else {
            assert!(options.unwrap_err().contains("feature `http-server`"));
        }
    }

    #[test]
    fn times_are_whole_seconds() {
        assert_eq!(parse(&["a", "--idle-exit=5"]).unwrap().idle_exit, Some(Duration::from_secs(5)));
    }

    #[test]
    fn invalid_options_are_errors_with_the_cure() {
        for (args, message) in [
            (&[][..], "missing FILE; see `tinymcp help serve`"),
            (&["--check"], "missing FILE; see `tinymcp help serve`"),
            (&["a", "--wacth"], "unknown option --wacth; did you mean --watch?"),
            (&["a", "--token-fil", "x"], "unknown option --token-fil; did you mean --token-file?"),
            (&["a", "--hosts"], "unknown option --hosts; see `tinymcp help serve`"),
            (&["a", "-x"], "unknown option -x; see `tinymcp help serve`"),
            (&["a", "--check", "--schema"], "--check and --schema exclude each other"),
            (&["a", "--http", "x", "--idle-exit", "1"], "--http and --idle-exit exclude each other"),
            (&["a", "--token-file", "t"], "--token-file requires --http"),
            (&["a", "--allow-host", "t"], "--allow-host requires --http"),
            (&["a", "--allow-origin", "t"], "--allow-origin requires --http"),
            (&["a", "--http", "x", "--http", "y"], "--http must be given at most once"),
            (
                &["a", "--idle-exit", "0"],
                "--idle-exit requires a whole number of seconds, 1 to 2000000, got \"0\"",
            ),
            (&["-"], "a definition cannot be read from standard input; expected a file or folder"),
            (&[""], "a file name must not be empty"),
        ] {
            assert_eq!(parse(args).unwrap_err(), message, "{args:?}");
        }
        for (args, part) in [(&["a", "--http"][..], "--http"), (&["a", "--watch=yes"], "--watch")] {
            assert!(parse(args).unwrap_err().contains(part), "{args:?}");
        }
        let options = parse(&["--idle-exit", "5", "a"]).unwrap();
        assert_eq!(options.idle_exit, Some(Duration::from_secs(5)));
        assert!(parse(&["--schema"]).unwrap().schema);
        assert!(parse(&["--help", "--token-file", "x"]).unwrap().help);
    }

    #[test]
    fn help_names_every_option() {
        for name in NAMES.split(' ').filter(|name| *name != "help") {
            assert!(crate::serve::HELP.contains(&format!("--{name}")), "{name}");
        }
    }
}
