//! Prints the public items of a crate, a line each, from rustdoc's JSON: `auricle-public-api FILE.json`

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let json = std::env::args().nth(1).ok_or("usage: auricle-public-api FILE.json")?;
    let api = public_api::Builder::from_rustdoc_json(json)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()?;
    println!("{api}");
    Ok(())
}
