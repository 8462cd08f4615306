//! Questions of the server: forms, pages, sampling, and calls that wait for an answer in a file.

pub(crate) mod forms;
pub(crate) mod parked;
pub(crate) mod sampler;

use tinymcp::ClientBuilder;

use super::args::Args;

/// Sets the handlers for the questions that the options, or the user at a terminal, can answer.
pub(crate) fn install(client: ClientBuilder, args: &Args) -> ClientBuilder {
    let client = forms::install(client, args);
    match args.questions.sampler.clone() {
        Some(command) => client.on_sample(move |request| sampler::answer(&command, request)),
        None => client,
    }
}
