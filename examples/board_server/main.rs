//! Tools for a Linux board: status, GPIO pins, a folder of files.
//!
//! ```sh
//! cargo run --release --example board_server                  # pins and files in a temporary folder
//! cargo run --release --example board_server -- --root DIR    # pins and files below DIR
//! cargo run --release --features http-server --example board_server -- --http 127.0.0.1:8080
//! ```
//!
//! With `--http`, `--key FILE` names a file with the 32 secret bytes that all instances behind one
//! address share; see `examples/deploy`.
//!
//! Shows the features of a complete server: typed arguments and results, a slow tool with progress
//! and cancellation, elicitation, resources with templates and updates, a prompt with completion,
//! log messages. Pins are files, `gpio/gpioN/value`, as in sysfs. Files that the model writes stay
//! below `files/` (see `files.rs`). Linux only, because both need `/proc`.

#[cfg(target_os = "linux")]
mod files;
#[cfg(target_os = "linux")]
mod gpio;
#[cfg(target_os = "linux")]
mod status;
#[cfg(all(test, target_os = "linux"))]
mod tests;

use std::process::ExitCode;

#[cfg(target_os = "linux")]
mod board {
    use std::error::Error;
    use std::fs::{self, DirBuilder};
    use std::io;
    use std::os::unix::fs::DirBuilderExt;
    use std::path::{Path, PathBuf};
    use std::sync::Arc;

    use tinymcp::{Argument, Completion, Prompt, PromptOutput, Server, stderr};

    use super::files::{self, Folder};
    use super::gpio::{self, Pins};
    use super::status;

    const COMPONENTS: [&str; 4] = ["cpu", "disk", "gpio", "memory"];

    /// The server for the board whose pins and files are below `root`.
    pub(crate) fn server(root: &Path) -> Result<Server, Box<dyn Error>> {
        let why = |error: io::Error| format!("cannot use {} for pins and files: {error}", root.display());
        let pins = Arc::new(Pins::below(&root.join("gpio")).map_err(why)?);
        let folder = Arc::new(Folder::open(&root.join("files")).map_err(why)?);
        let mut server = Server::new("board", env!("CARGO_PKG_VERSION"));
        server
            .title("Linux board")
            .instructions("Read board://status before you conclude anything about the board's condition.")
            .logging()
            .resource_updates();
        status::register(&mut server, root)?;
        gpio::register(&mut server, &pins)?;
        files::register(&mut server, &folder)?;
        diagnose(&mut server)?;
        Ok(server)
    }

    fn diagnose(server: &mut Server) -> Result<(), tinymcp::Error> {
        let prompt = Prompt::new("diagnose")
            .description("Starts a search for the cause of a fault")
            .argument(Argument::required("symptom").description("What was noticed"))
            .argument(Argument::optional("component").description("cpu, disk, gpio or memory"));
        server
            .prompt(prompt, |_, arguments| {
                // OK because the library refuses the prompt without its required argument.
                let symptom = arguments.get("symptom").unwrap_or_default();
                let component = arguments.get("component").unwrap_or("not known yet");
                Ok(PromptOutput::new().description("Fault search on this board").user(format!(
                    "Something is wrong with this board.\nSymptom: {symptom}\nComponent: {component}\n\
                     Read board://status, name the likely causes, and say what to check next."
                )))
            })?
            .complete_prompt("diagnose", "component", |request| {
                Completion::new(COMPONENTS.into_iter().filter(|c| c.starts_with(request.value)))
            })?;
        Ok(())
    }

    /// Temporary folder that is removed on drop.
    pub(crate) struct Scratch(PathBuf);

    impl Scratch {
        pub(crate) fn new() -> io::Result<Scratch> {
            let (base, process) = (std::env::temp_dir(), std::process::id());
            for attempt in 0..1000 {
                let folder = base.join(format!("tinymcp-board-{process}-{attempt}"));
                // Fails if the folder exists; no other user can read the new one.
                match DirBuilder::new().mode(0o700).create(&folder) {
                    Ok(()) => return Ok(Scratch(folder)),
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                    Err(error) => return Err(error),
                }
            }
            Err(io::ErrorKind::AlreadyExists.into())
        }

        pub(crate) fn path(&self) -> &Path {
            &self.0
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            if let Err(error) = fs::remove_dir_all(&self.0) {
                stderr::write(format!("board_server: cannot remove {}: {error}\n", self.0.display()));
            }
        }
    }

    /// Options of the command line.
    #[derive(Default)]
    pub(crate) struct Options {
        /// Folder of pins and files; a scratch folder if absent.
        pub(crate) root: Option<PathBuf>,
        /// Address to listen on; standard input and output if absent.
        pub(crate) http: Option<String>,
        /// File with the key that authenticates `requestState`.
        pub(crate) key: Option<PathBuf>,
    }

    /// Serves until the end of input, over HTTP until SIGTERM.
    pub(crate) fn run(options: &Options) -> Result<(), Box<dyn Error>> {
        let scratch;
        let root = match &options.root {
            Some(root) => root.as_path(),
            None => {
                scratch = Scratch::new()?;
                scratch.path()
            }
        };
        let mut server = server(root)?;
        if let Some(file) = &options.key {
            let name = file.display();
            let key = fs::read(file).map_err(|error| format!("cannot read the key {name}: {error}"))?;
            server
                .request_state_key(key.try_into().map_err(|_| format!("the key {name} must have 32 bytes"))?);
        }
        match &options.http {
            Some(address) => serve_http(server, address),
            None => Ok(server.serve_stdio()?),
        }
    }

    #[cfg(feature = "http-server")]
    fn serve_http(server: Server, address: &str) -> Result<(), Box<dyn Error>> {
        let bound = server.http().bind(address)?;
        stderr::write(format!("board_server: http://{}/mcp\n", bound.address()));
        Ok(bound.serve()?)
    }

    #[cfg(not(feature = "http-server"))]
    fn serve_http(_: Server, _: &str) -> Result<(), Box<dyn Error>> {
        Err("built without the feature http-server".into())
    }
}

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    let mut options = board::Options::default();
    let mut arguments = std::env::args_os().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.to_str() {
            Some("--stdio") => {}
            Some("--root") => match arguments.next() {
                Some(folder) => options.root = Some(folder.into()),
                None => return usage("--root needs a folder"),
            },
            Some("--http") => match arguments.next().and_then(|address| address.into_string().ok()) {
                Some(address) => options.http = Some(address),
                None => return usage("--http needs an address"),
            },
            Some("--key") => match arguments.next() {
                Some(file) => options.key = Some(file.into()),
                None => return usage("--key needs a file"),
            },
            _ => return usage(&format!("unknown argument {}", argument.to_string_lossy())),
        }
    }
    let code = match board::run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tinymcp::stderr::write(format!("board_server: {error}\n"));
            ExitCode::FAILURE
        }
    };
    tinymcp::stderr::flush();
    code
}

#[cfg(target_os = "linux")]
fn usage(problem: &str) -> ExitCode {
    eprintln!(
        "board_server: {problem}\nusage: board_server [--stdio | --http ADDR [--key FILE]] [--root DIR]"
    );
    ExitCode::from(2)
}

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    eprintln!("board_server: this example needs Linux");
    ExitCode::FAILURE
}
