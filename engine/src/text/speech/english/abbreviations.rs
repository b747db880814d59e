//! Abbreviations: what is said for them.

use super::dates::MONTHS;
use crate::text::word_list::{phrases, words};

/// Abbreviations with a full stop, each with what is said for it.
const WITH_STOP: &[&str] = phrases!(
    "adm: admiral, al: al, apr: april, approx: approximately, apt: apartment, assn: association, asst: assistant, \
     aug: august, ave: avenue, avg: average, bldg: building, blvd: boulevard, bros: brothers, capt: captain, \
     cf: compare, cmdr: commander, co: company, col: colonel, cont: continued, corp: corporation, dec: december, \
     dept: department, ed: edition, esp: especially, esq: esquire, est: established, etc: et cetera, ext: extension, \
     feb: february, fri: friday, ft: fort, gen: general, gov: governor, govt: government, hon: honorable, \
     hwy: highway, inc: incorporated, incl: including, intl: international, jan: january, jr: junior, jul: july, \
     jun: june, lt: lieutenant, ltd: limited, maj: major, mar: march, max: maximum, messrs: messieurs, min: minimum, \
     misc: miscellaneous, mon: monday, mr: mister, mrs: missus, ms: ms, mt: mount, nov: november, oct: october, \
     orig: originally, pkwy: parkway, pres: president, prof: professor, pvt: private, rd: road, ref: reference, \
     rep: representative, rev: reverend, sat: saturday, sen: senator, sept: september, sep: september, sgt: sergeant, \
     sr: senior, sun: sunday, tel: telephone, temp: temperature, thu: thursday, thurs: thursday, tue: tuesday, tues: tuesday, \
     univ: university, viz: namely, vs: versus, wed: wednesday"
);

/// Those that may stand without a full stop, with their capitals.
const WITHOUT_STOP: &[&str] =
    &["Mr", "Mrs", "Ms", "Prof", "vs", "etc", "approx", "Jr", "Sr", "Ltd", "Blvd", "Sgt", "Capt"];

/// Those that are words too: they need a capital, and a name or a number behind them.
const NAMED: &[&str] = words!(
    "al apt co col ed est ext ft gen gov hon inc jr lt maj mar max min mon mt pres rep rev sat sen sr sun temp wed"
);

/// Those that stand before a number.
const BEFORE_NUMBERS: &[&str] = phrases!(
    "art: article, c: circa, ca: circa, ch: chapter, eq: equation, ext: extension, fig: figure, figs: figures, \
     no: number, nos: numbers, p: page, pp: pages, sec: section, vol: volume, ver: version"
);

/// Postal codes of the states of America, each with its name.
const STATES: &[&str] = phrases!(
    "AL: alabama, AK: alaska, AZ: arizona, AR: arkansas, CA: california, CO: colorado, CT: connecticut, DE: delaware, \
     FL: florida, GA: georgia, HI: hawaii, ID: idaho, IL: illinois, IN: indiana, IA: iowa, KS: kansas, KY: kentucky, \
     LA: louisiana, ME: maine, MD: maryland, MA: massachusetts, MI: michigan, MN: minnesota, MS: mississippi, \
     MO: missouri, MT: montana, NE: nebraska, NV: nevada, NH: new hampshire, NJ: new jersey, NM: new mexico, \
     NY: new york, NC: north carolina, ND: north dakota, OH: ohio, OK: oklahoma, OR: oregon, PA: pennsylvania, \
     RI: rhode island, SC: south carolina, SD: south dakota, TN: tennessee, TX: texas, UT: utah, VT: vermont, \
     VA: virginia, WA: washington, WV: west virginia, WI: wisconsin, WY: wyoming, DC: D C"
);

/// Codes of states that are words or cries in capitals, too.
const STATE_WORDS: [&str; 8] = ["HI", "ID", "IN", "ME", "OH", "OK", "OR", "PA"];

/// Dotted abbreviations that are not spelled.
const DOTTED: &[&str] = phrases!("e.g.: for example, i.e.: that is, ph.d.: P H D, w.r.t.: with respect to");

/// Shortened forms with a slash.
const SLASHED: &[&str] = phrases!(
    "and/or: and or, b/c: because, c/o: care of, he/she: he or she, him/her: him or her, his/her: his or her, \
     n/a: not applicable, s/he: she or he, she/he: she or he, w/: with, w/o: without"
);

/// The words behind an abbreviation in its row of a table.
fn find(table: &'static [&str], lower: &str) -> Option<&'static str> {
    table.iter().filter_map(|row| row.split_once(": ")).find(|(short, _)| *short == lower).map(|(_, said)| said)
}

/// The reading of an abbreviation without its full stop, before the text `after` it.
pub fn with_stop(word: &str, after: &str) -> Option<&'static str> {
    let lower = word.to_ascii_lowercase();
    let next = after.trim_start();
    if let Some(said) = find(BEFORE_NUMBERS, &lower)
        && (next.starts_with(|next: char| next.is_ascii_digit()) || is_roman(next))
    {
        return Some(said);
    }
    let capital = word.starts_with(|first: char| first.is_ascii_uppercase());
    let goes_on = next.starts_with(|next: char| next.is_ascii_alphanumeric() || next == ',' || next == ')');
    let follows = lower == "al" || goes_on && capital;
    if lower == "est" && capital && next.starts_with(|next: char| next.is_ascii_lowercase()) {
        return Some("estimated");
    }
    if NAMED.contains(&lower.as_str()) && !follows && !["inc", "co", "jr", "sr"].contains(&lower.as_str()) {
        return None;
    }
    find(WITH_STOP, &lower)
}

/// True if a text begins with a Roman numeral.
fn is_roman(text: &str) -> bool {
    let word = text.split(|end: char| !end.is_ascii_alphanumeric()).next().unwrap_or_default();
    !word.is_empty() && word.bytes().all(|letter| b"IVXLC".contains(&letter))
}

/// Units whose full stop is no end where a small letter follows.
const UNITS: [&str; 14] =
    ["ct", "ft", "gal", "hr", "hrs", "in", "lb", "lbs", "min", "mins", "oz", "sec", "tbsp", "tsp"];

/// The name of an American state for its postal code.
pub fn state(code: &str) -> Option<&'static str> {
    find(STATES, code)
}

/// The reading of an abbreviation that has no full stop.
pub fn without_stop(word: &str) -> Option<&'static str> {
    WITHOUT_STOP.contains(&word).then(|| find(WITH_STOP, &word.to_ascii_lowercase())).flatten()
}

/// The reading of a dotted abbreviation: "e.g."
pub fn dotted(word: &str) -> Option<&'static str> {
    find(DOTTED, &word.to_ascii_lowercase())
}

/// The reading of a form with a slash: "w/o".
pub fn slashed(word: &str) -> Option<&'static str> {
    find(SLASHED, &word.to_ascii_lowercase())
}

/// True if the full stop of `word` may belong to an abbreviation, so that the next word decides.
pub fn may_be_stopped(word: &str) -> bool {
    stopped(word).is_some_and(|stem| {
        let lower = stem.to_ascii_lowercase();
        find(BEFORE_NUMBERS, &lower).or_else(|| find(WITH_STOP, &lower)).is_some() || UNITS.contains(&lower.as_str())
    })
}

/// True if the full stop of `word` belongs to an abbreviation that `next` follows: "Jan. 5", "approx. half", "Mon. Jan. 5".
pub fn is_stopped_before(word: &str, next: &str) -> bool {
    if may_be_stopped(word) && next.starts_with(|next: char| next.is_ascii_lowercase()) {
        return true;
    }
    stopped(word).and_then(|stem| Some((stem, with_stop(stem, next)?))).is_some_and(|(stem, said)| {
        // A name is compared, or belongs to brothers.
        if ["cf", "Cf", "Bros", "viz"].contains(&stem) {
            return true;
        }
        let first = next.trim_start_matches(['(', '"', '\'']).chars().next();
        let is_date = |said: &str| said.ends_with("day") || MONTHS.contains(&said);
        let next_said = stopped(next).and_then(|next| with_stop(next, "1"));
        first.is_some_and(|first| first.is_ascii_digit())
            || is_roman(next) && find(BEFORE_NUMBERS, &stem.to_ascii_lowercase()).is_some()
            || is_date(said) && (next_said.is_some_and(is_date) || MONTHS.contains(&next.to_ascii_lowercase().as_str()))
    })
}

/// A word without marks before it and its one full stop.
fn stopped(word: &str) -> Option<&str> {
    word.strip_suffix('.').map(|stem| stem.trim_start_matches(|first: char| !first.is_alphanumeric()))
}

/// True for a word that a comma does not separate from the name before it: "Jr."
pub fn follows_comma(word: &str) -> bool {
    let bare = word.trim_end_matches(|end: char| !end.is_alphanumeric());
    ["Jr", "Sr", "Inc", "Ltd", "LLC", "Ph.D", "PhD", "M.D", "MD", "Esq", "etc"].contains(&bare)
        || state(bare).is_some() && !STATE_WORDS.contains(&bare)
}
