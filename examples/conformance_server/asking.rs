//! Tools, and a prompt, that ask the user, the model or for the roots. Each handler serves both
//! eras: sessions are sent requests, everybody else gets questions as a result.

use tinymcp::{
    Content, Context, Error, Field, Form, FormResult, Prompt, PromptOutput, SampleResult, Sampling, Server,
    Tool, ToolError, json,
};

use crate::Nothing;

tinymcp::record! {
    struct Question {
        prompt: String,
    }
}

tinymcp::record! {
    struct Request {
        message: String,
    }
}

pub(crate) fn add(server: &mut Server) -> Result<(), Error> {
    requests(server)?;
    rounds(server)
}

/// What sessions of 2025-11-25 are asked.
fn requests(server: &mut Server) -> Result<(), Error> {
    server
        .tool(Tool::new("test_sampling").description("Asks the model"), |ctx, question: Question| {
            let answer = ctx.sample("answer", Sampling::new(100).user(question.prompt))?;
            Ok(format!("LLM response: {}", answer.text()))
        })?
        .tool(Tool::new("test_elicitation").description("Asks the user"), |ctx, request: Request| {
            let form = Form::new(request.message)
                .field(Field::text("username").description("User's response").required())
                .field(Field::text("email").description("User's email address").required());
            ctx.elicit("user", form).map(|answer| said(&answer))
        })?
        .tool(
            Tool::new("test_elicitation_sep1034_defaults").description("Offers defaults"),
            |ctx, _: Nothing| {
                let form = Form::new("Please review these values")
                    .field(Field::text("name").default("John Doe"))
                    .field(Field::integer("age").default(30))
                    .field(Field::number("score").default(95.5))
                    .field(Field::choice("status", ["active", "inactive", "pending"]).default("active"))
                    .field(Field::boolean("verified").default(true));
                ctx.elicit("review", form).map(|answer| said(&answer))
            },
        )?
        .tool(
            Tool::new("test_elicitation_sep1330_enums").description("Offers choices"),
            |ctx, _: Nothing| {
                let titled =
                    [("value1", "First Option"), ("value2", "Second Option"), ("value3", "Third Option")];
                let plain = ["option1", "option2", "option3"];
                let named = [("opt1", "Option One"), ("opt2", "Option Two"), ("opt3", "Option Three")];
                let form = Form::new("Please choose")
                    .field(Field::choice("untitledSingle", plain))
                    .field(Field::titled_choice("titledSingle", titled))
                    .field(Field::named_choice("legacyEnum", named))
                    .field(Field::choices("untitledMulti", plain))
                    .field(Field::titled_choices("titledMulti", titled));
                ctx.elicit("choices", form).map(|answer| said(&answer))
            },
        )?;
    Ok(())
}

fn said(answer: &FormResult) -> String {
    let content = ["username", "email", "name", "age", "score", "status", "verified"]
        .into_iter()
        .filter_map(|name| Some(format!("{name}={}", answer.value(name)?.raw())))
        .collect::<Vec<_>>();
    format!(
        "User response: action={}, content={}",
        format!("{:?}", answer.action()).to_lowercase(),
        content.join(" ")
    )
}

fn name(ctx: &mut Context<'_>) -> Result<FormResult, ToolError> {
    ctx.elicit("user_name", Form::new("What is your name?").field(Field::text("name").required()))
}

fn confirm(ctx: &mut Context<'_>) -> Result<FormResult, ToolError> {
    ctx.elicit("confirm", Form::new("Please confirm").field(Field::boolean("ok").required()))
}

fn capital(ctx: &mut Context<'_>) -> Result<SampleResult, ToolError> {
    ctx.sample("capital_question", Sampling::new(100).user("What is the capital of France?"))
}

/// What requests of 2026-07-28 are answered with: questions, in one round or several.
fn rounds(server: &mut Server) -> Result<(), Error> {
    let tool = |name: &str| {
        Tool::new(format!("test_input_required_result_{name}")).description("Asks before it answers")
    };
    server
        .tool(tool("elicitation"), |ctx, _: Nothing| greet(ctx))?
        .tool(Tool::new("test_streaming_elicitation").description("Asks on a stream"), |ctx, _: Nothing| {
            ctx.progress(1.0, None, Some("About to ask"));
            greet(ctx)
        })?
        .tool(tool("sampling"), |ctx, _: Nothing| Ok(capital(ctx)?.text()))?
        .tool(tool("list_roots"), |ctx, _: Nothing| {
            let roots = ctx.roots("client_roots")?;
            Ok(roots.iter().map(|root| root.uri.clone()).collect::<Vec<_>>().join(", "))
        })?
        .tool(tool("request_state"), |ctx, _: Nothing| confirm(ctx).map(|_| "state-ok"))?
        .tool(tool("tampered_state"), |ctx, _: Nothing| confirm(ctx).map(|_| "state-ok"))?
        .tool(tool("multiple_inputs"), |ctx, _: Nothing| {
            let user = name(ctx);
            let greeting = ctx.sample("greeting", Sampling::new(50).user("Generate a greeting"));
            let roots = ctx.roots("client_roots");
            let (user, greeting, roots) = (user?, greeting?, roots?);
            Ok(format!("{} {} {} roots", greeting.text(), user.text("name").unwrap_or("you"), roots.len()))
        })?
        .tool(tool("multi_round"), |ctx, _: Nothing| {
            let first = ctx.elicit(
                "step1",
                Form::new("Step 1: What is your name?").field(Field::text("name").required()),
            )?;
            let second = ctx.elicit(
                "step2",
                Form::new("Step 2: What is your favorite color?").field(Field::text("color").required()),
            )?;
            Ok(format!(
                "{} likes {}",
                first.text("name").unwrap_or("Somebody"),
                second.text("color").unwrap_or("none")
            ))
        })?
        .tool(tool("capabilities"), |ctx, _: Nothing| match ctx.client_can() {
            can if can.sampling => Ok(capital(ctx)?.text()),
            can if can.form => greet(ctx),
            can if can.roots => Ok(format!("{} roots", ctx.roots("client_roots")?.len())),
            _ => Ok("Nobody to ask".to_owned()),
        })?
        .tool(Tool::new("test_missing_capability").description("Needs a model"), |ctx, _: Nothing| {
            Ok(capital(ctx)?.text())
        })?
        .prompt(
            Prompt::new("test_input_required_result_prompt").description("Asks before it answers"),
            |ctx, _| {
                let form =
                    Form::new("What context should the prompt use?").field(Field::text("context").required());
                let answer = ctx.elicit("user_context", form)?;
                Ok(PromptOutput::new().user(format!("Context: {}", answer.text("context").unwrap_or("none"))))
            },
        )?;
    // The tools that change what is offered while somebody listens.
    let handle = server.handle();
    let prompts = server.handle();
    server
        .tool(
            Tool::new("test_trigger_tool_change").description("Changes the list of tools"),
            move |_, _: Nothing| {
                handle.remove_tool("test_temporary")?;
                handle.add_tool(
                    Tool::new("test_temporary").description("Comes and goes"),
                    |_, _: Nothing| Ok(json!({})),
                )?;
                handle.remove_tool("test_temporary")?;
                Ok(Content::text("The list of tools has changed"))
            },
        )?
        .tool(
            Tool::new("test_trigger_prompt_change").description("Changes the list of prompts"),
            move |_, _: Nothing| {
                prompts.add_prompt(Prompt::new("test_temporary"), |_, _| Ok(PromptOutput::new()))?;
                prompts.remove_prompt("test_temporary")?;
                Ok(Content::text("The list of prompts has changed"))
            },
        )?;
    Ok(())
}

fn greet(ctx: &mut Context<'_>) -> Result<String, ToolError> {
    Ok(format!("Hello, {}!", name(ctx)?.text("name").unwrap_or("you")))
}
