//! Resources, prompts and completion.

use tinymcp::{
    Argument, Completion, Content, Error, Prompt, PromptOutput, Resource, ResourceContents, Role, Server,
    Template,
};

use crate::plain::PNG;

pub(crate) fn add(server: &mut Server) -> Result<(), Error> {
    resources(server)?;
    prompts(server)
}

fn resources(server: &mut Server) -> Result<(), Error> {
    server
        .resource(
            Resource::new("test://static-text", "Static text").description("A text").mime_type("text/plain"),
            |_, uri| {
                Ok(ResourceContents::text(uri, "This is the content of the static text resource.")
                    .mime_type("text/plain"))
            },
        )?
        .resource(
            Resource::new("test://static-binary", "Static binary")
                .description("An image")
                .mime_type("image/png"),
            |_, uri| Ok(ResourceContents::bytes(uri, PNG).mime_type("image/png")),
        )?
        .resource(
            Resource::new("test://watched-resource", "Watched")
                .description("To subscribe to")
                .mime_type("text/plain"),
            |_, uri| Ok(ResourceContents::text(uri, "Watched resource content").mime_type("text/plain")),
        )?
        .template(
            Template::new("test://template/{id}/data", "Template")?
                .description("A resource by id")
                .mime_type("application/json"),
            |_, uri, variables| {
                let id = variables.get("id").unwrap_or_default();
                let text = format!(r#"{{"id":"{id}","templateTest":true,"data":"Data for ID: {id}"}}"#);
                Ok(ResourceContents::text(uri, text).mime_type("application/json"))
            },
        )?;
    Ok(())
}

fn prompts(server: &mut Server) -> Result<(), Error> {
    server
        .prompt(Prompt::new("test_simple_prompt").description("Without arguments"), |_, _| {
            Ok(PromptOutput::new().user("This is a simple prompt for testing."))
        })?
        .prompt(
            Prompt::new("test_prompt_with_arguments")
                .description("With two")
                .argument(Argument::required("arg1").description("First test argument"))
                .argument(Argument::required("arg2").description("Second test argument")),
            |_, arguments| {
                let (one, two) = (arguments.required("arg1")?, arguments.required("arg2")?);
                Ok(PromptOutput::new().user(format!("Prompt with arguments: arg1='{one}', arg2='{two}'")))
            },
        )?
        .prompt(
            Prompt::new("test_prompt_with_embedded_resource")
                .description("With a resource")
                .argument(Argument::required("resourceUri").description("URI of the resource to embed")),
            |_, arguments| {
                let uri = arguments.required("resourceUri")?;
                let contents = ResourceContents::text(uri, "Embedded resource content for testing.");
                Ok(PromptOutput::new()
                    .message(Role::User, Content::embedded(contents.mime_type("text/plain")))
                    .user("Please process the embedded resource above."))
            },
        )?
        .prompt(Prompt::new("test_prompt_with_image").description("With an image"), |_, _| {
            Ok(PromptOutput::new()
                .message(Role::User, Content::image(PNG, "image/png"))
                .user("Please analyze the image above."))
        })?
        .complete_prompt("test_prompt_with_arguments", "arg1", |request| {
            Completion::matching(request.value, ["paris", "park", "party"])
        })?;
    Ok(())
}
