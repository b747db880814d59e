//! Words outside a dictionary, pronounced as the engine does: the share that is exact.

use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use auricle_engine::unstable::models::bert::G2p;
use auricle_engine::unstable::text::speech::{Lexicon, Pronouncer};
use clap::Parser;

/// Words outside a dictionary, pronounced as the engine does: the share that is exact
///
/// Words come from their relatives in the dictionary, or else from the model. Those that are wrong are printed, with what is said and the first
/// of the pronunciations; on standard error the shares.
#[derive(Parser)]
#[command(after_help = "Examples, from the repository:
  (cd models && python -m recipes.voice dictionary --out /tmp/known.bin --held-out /tmp/words.tsv)
  cargo run --release --bin pronunciations -- models/starter/voice-en/g2p /tmp/known.bin /tmp/words.tsv > wrong.tsv")]
struct Arguments {
    /// A folder of a letters-to-phones model
    model: PathBuf,
    /// A packed dictionary that does not have the words
    dictionary: PathBuf,
    /// Lines of a word and its pronunciations, with tabs between
    words: PathBuf,
}

fn main() -> ExitCode {
    auricle_benches::run(run)
}

fn run(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let lexicon = Lexicon::parse(fs::read(&arguments.dictionary)?.leak()).ok_or("it is no packed dictionary")?;
    let pronouncer =
        Pronouncer::new(Some(Arc::new(G2p::load(&arguments.model)?))).lexicon(Box::leak(Box::new(lexicon)));
    let text = fs::read_to_string(&arguments.words)?;
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
    let (mut exact, mut without_stress) = (0, 0);
    for some in rows.chunks(64) {
        let words: Vec<&str> = some.iter().map(|row| row[0]).collect();
        for (row, phones) in some.iter().zip(pronouncer.outside(&words)?) {
            let said = phones.iter().map(|phone| phone.name()).collect::<Vec<_>>().join(" ");
            let bare = |text: &str| text.replace(|letter: char| letter.is_ascii_digit(), "");
            without_stress += usize::from(row[1..].iter().any(|way| bare(way) == bare(&said)));
            match row[1..].contains(&said.as_str()) {
                true => exact += 1,
                false => println!("{}\t{said}\t{}", row[0], row.get(1).unwrap_or(&"")),
            }
        }
    }
    let percent = |count: usize| 100.0 * count as f64 / rows.len() as f64;
    eprintln!("{} words: {:.1} % exact, {:.1} % without stress", rows.len(), percent(exact), percent(without_stress));
    Ok(())
}
