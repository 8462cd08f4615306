//! GPIO pins: tools `gpio_read`, `gpio_write`, `blink` and `erase_pins`, template `gpio://pin/{pin}`.
//!
//! A pin is a file that contains `0` or `1`, as below `/sys/class/gpio`. Files are written in place
//! with one write, so a reader never finds an empty file.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tinymcp::{
    Completion, Content, Context, Error, Field, Form, Handle, Level, ResourceContents, Server, Template,
    Tool, ToolError, ToolHints, ToolOutput, json,
};

/// Last pin number, in BCM numbering.
const LAST: u8 = 27;

/// Interval at which a blinking pin checks for cancellation.
const CANCEL_INTERVAL: Duration = Duration::from_millis(5);

tinymcp::record! {
    /// No arguments.
    struct Nothing {}
}

tinymcp::record! {
    /// A pin to read.
    struct ReadPin {
        /// Pin number in BCM numbering
        pin: u8 [0..=27],
    }
}

tinymcp::record! {
    /// A pin to set.
    struct SetPin {
        /// Pin number in BCM numbering
        pin: u8 [0..=27],
        /// Level to set
        value: u8 [0..=1],
    }
}

tinymcp::record! {
    /// A pin to switch on and off.
    struct Blink {
        /// Pin number in BCM numbering
        pin: u8 [0..=27],
        /// Number of blinks
        times: u32 [1..=100] = 3,
        /// Milliseconds from one blink to the next
        interval as "intervalMs": u32 [1..=1000] = 100,
    }
}

/// Folder with one subfolder per pin.
pub(crate) struct Pins {
    folder: PathBuf,
}

impl Pins {
    /// Opens the pins in this folder; creates missing ones with level 0.
    pub(crate) fn below(folder: &Path) -> io::Result<Pins> {
        let pins = Pins { folder: folder.into() };
        for pin in 0..=LAST {
            let file = pins.file(pin);
            if !file.exists() {
                fs::create_dir_all(file.with_file_name(""))?;
                fs::write(file, "0\n")?;
            }
        }
        Ok(pins)
    }

    fn file(&self, pin: u8) -> PathBuf {
        self.folder.join(format!("gpio{pin}/value"))
    }

    pub(crate) fn get(&self, pin: u8) -> Result<u8, ToolError> {
        match fs::read_to_string(self.file(pin))?.trim_end() {
            "0" => Ok(0),
            "1" => Ok(1),
            other => Err(ToolError::new(format!("pin {pin} must contain 0 or 1, got {other:?}"))),
        }
    }

    pub(crate) fn set(&self, pin: u8, value: u8) -> Result<(), ToolError> {
        let mut file = OpenOptions::new().write(true).open(self.file(pin))?;
        file.write_all(if value == 0 { b"0\n" } else { b"1\n" })?;
        Ok(())
    }
}

pub(crate) fn register(server: &mut Server, pins: &Arc<Pins>) -> Result<(), Box<dyn std::error::Error>> {
    register_tools(server, pins)?;
    let template = Template::new("gpio://pin/{pin}", "pin")?
        .description("Level of a pin, 0 or 1")
        .mime_type("text/plain");
    let for_template = Arc::clone(pins);
    server
        .template(template, move |_, uri, variables| {
            let pin = variables.get("pin").and_then(number).ok_or_else(|| ToolError::not_found(uri))?;
            Ok(ResourceContents::text(uri, for_template.get(pin)?.to_string()).mime_type("text/plain"))
        })?
        .complete_template("gpio://pin/{pin}", "pin", |request| {
            let numbers = (0..=LAST).map(|pin| pin.to_string());
            Completion::new(numbers.filter(|pin| pin.starts_with(request.value)))
        })?;
    Ok(())
}

fn register_tools(server: &mut Server, pins: &Arc<Pins>) -> Result<(), Error> {
    let handle = server.handle();
    let for_read = Arc::clone(pins);
    server.tool(Tool::new("gpio_read").description("Reads a pin").read_only(), move |_, read: ReadPin| {
        let value = for_read.get(read.pin)?;
        Ok(ToolOutput::structured(json!({"pin": read.pin, "value": value}))
            .content(Content::text(value.to_string())))
    })?;
    let (for_write, notify) = (Arc::clone(pins), handle.clone());
    server.tool(
        Tool::new("gpio_write").description("Sets a pin").hints(harmless()),
        move |_, write: SetPin| {
            for_write.set(write.pin, write.value)?;
            changed(&notify, write.pin)?;
            Ok(format!("pin {} is now {}", write.pin, write.value))
        },
    )?;
    let for_blink = Arc::clone(pins);
    server.tool(
        Tool::new("blink")
            .description(
                "Switches a pin on and off several times, then restores its level. Takes times * intervalMs",
            )
            .hints(harmless()),
        move |ctx, wanted: Blink| blink(ctx, &for_blink, &wanted),
    )?;
    let for_erase = Arc::clone(pins);
    server.tool(
        Tool::new("erase_pins").description("Sets every pin to 0, after the user agreed"),
        move |ctx, _: Nothing| erase(ctx, &for_erase, &handle),
    )?;
    Ok(())
}

/// Hints of tools that set pins: not destructive, idempotent, closed world.
fn harmless() -> ToolHints {
    ToolHints {
        destructive: Some(false),
        idempotent: Some(true),
        open_world: Some(false),
        ..ToolHints::default()
    }
}

/// Parses a pin number of a URI: no sign and no leading zero, so each pin has one URI.
fn number(text: &str) -> Option<u8> {
    let pin: u8 = text.parse().ok()?;
    (pin <= LAST && pin.to_string() == text).then_some(pin)
}

fn changed(handle: &Handle, pin: u8) -> Result<(), Error> {
    handle.resource_updated(&format!("gpio://pin/{pin}"))
}

fn blink(ctx: &mut Context<'_>, pins: &Pins, wanted: &Blink) -> Result<String, ToolError> {
    let Blink { pin, times, interval } = *wanted;
    ctx.log(Level::Info, Some("gpio"), format!("blinking pin {pin}"))?;
    let before = pins.get(pin)?;
    let half = Duration::from_millis(interval.into()) / 2;
    for time in 1..=times {
        let message = format!("blink {time} of {times}");
        ctx.progress(time.into(), Some(times.into()), Some(&message));
        pins.set(pin, 1)?;
        let lit = wait(ctx, half);
        pins.set(pin, 0)?;
        if !lit || !wait(ctx, half) {
            pins.set(pin, before)?;
            return Err(ToolError::new(format!("pin {pin} was stopped at {message}")));
        }
    }
    pins.set(pin, before)?;
    Ok(format!("pin {pin} blinked {times} times"))
}

/// Waits; returns false at once if the call is cancelled.
fn wait(ctx: &Context<'_>, time: Duration) -> bool {
    let until = Instant::now() + time;
    loop {
        if ctx.cancelled() {
            return false;
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(CANCEL_INTERVAL));
    }
}

fn erase(ctx: &mut Context<'_>, pins: &Pins, handle: &Handle) -> Result<&'static str, ToolError> {
    let form = Form::new("Set every pin to 0?").field(
        Field::boolean("sure")
            .title("Yes, all of them")
            .description("Everything connected to them is switched off")
            .required(),
    );
    // The handler returns here until the user has answered, then runs again from its start. Side
    // effects must follow this line.
    let answer = ctx.elicit("confirm", form)?;
    if answer.bool("sure") != Some(true) {
        return Ok("nothing was changed");
    }
    for pin in 0..=LAST {
        if pins.get(pin)? != 0 {
            pins.set(pin, 0)?;
            changed(handle, pin)?;
        }
    }
    Ok("all pins are 0")
}
