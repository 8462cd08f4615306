//! Reads two JSON files and checks that they are the same text; with the feature `schema`, also
//! that the second is valid against the first. `../size.sh` compares the sizes of the builds.

use std::error::Error;

use tinymcp::json::Doc;

fn main() -> Result<(), Box<dyn Error>> {
    let mut files = std::env::args_os().skip(1).map(std::fs::read);
    let (Some(schema), Some(value)) = (files.next(), files.next()) else {
        return Err("expected: SCHEMA VALUE".into());
    };
    let (schema, value) = (Doc::parse(schema?)?, Doc::parse(value?)?);
    println!("{}", schema.root().raw() == value.root().raw());
    #[cfg(feature = "schema")]
    match tinymcp::schema::Schema::compile(schema.root())?.check(value.root()) {
        Ok(()) => println!("valid"),
        Err(violation) => println!("{violation}"),
    }
    Ok(())
}
