//! The word lists, read once. `lists/README.md` names their sources.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::label::Label;

/// Memberships of a single word, one bit each.
pub type Flags = u16;

/// A word of everyday English, in lower case.
pub const COMMON: Flags = 1;
/// A given name.
pub const GIVEN: Flags = 1 << 1;
/// A family name.
pub const SURNAME: Flags = 1 << 2;
/// A town.
pub const TOWN: Flags = 1 << 3;
/// A given name whose everyday meaning is rare: "john", "jack".
pub const FIRM: Flags = 1 << 4;
/// A name of a month or a weekday.
pub const CALENDAR: Flags = 1 << 5;
/// A name of a company.
pub const COMPANY: Flags = 1 << 6;
/// A given name or a family name that few bear, and that is nothing else in the lists. Alone it is no evidence of a person.
pub const RARE: Flags = 1 << 7;

/// Given names that the dictionary has, too, and that mean a person nearly always.
const FIRM_NAMES: &str = "john jack mike tom bob harry peter jimmy jenny josh sally nelly louis dan ben sam tim jim joe \
    nick rob ted ron sean jane mary anna maria susan laura daniel david james thomas charlie charles henry martin oliver \
    robert george alan kevin eric adam simon paul stephanie jerry larry terry gary barry kate kathy katy ann anne emma ella \
    carla sophia maya tony andy billy bobby johnny tommy danny kenny benny bernard jake luke matthew jill jackie jessie \
    molly lucy polly dolly betty peggy becky annie roger timothy victor oscar hector leo felix max mickey";

/// Words that are names in the lists but mean something else nearly always.
const NO_NAMES: &str = "an so in my see do long young do you he she they we me us it is are be to too was were has had have the a \
    and or of on off at by for from with no not yes ok okay may will can could would should must shall might up down out over \
    under again further then once here there when where why how all any both each few more most other some such only own same \
    iban ping swift vin ssn nhs pin cvv than very just now new old good bad big small little great high low early late next last first second third one two three \
    four five six seven eight nine ten hundred thousand million day days week weeks month months year years today tomorrow \
    yesterday morning evening night noon hour hours minute minutes time times please thanks thank sorry hello hi hey bye dear \
    sir madam mister miss mr mrs ms dr professor doctor nurse man men woman women boy girl guy guys people person child kid \
    name number phone email mail address street road avenue lane drive court place way hill park lake river bridge city town \
    state country card account bank call home house work office school church shop store market street this that these those \
    what who which whose him her his their our your its said say says tell told ask asked know think see saw look get got go \
    went come came take took make made give gave find found want need like love hope let put set run send sent read write back \
    free sale price order case box book books page line lines list note notes code pin key keys test tests question answer sure \
    right left true false real main part half side end start stop open close top bottom front back north south east west \
    white black brown green blue red gray grey gold silver rose rice wood stone rock sand snow rain storm sun moon star day \
    king queen prince duke major general judge bishop pope saint art bell ball bond bush field fields ford fox frost grant \
    ice iron key law lord mark marks may mercy mills moss new noble page parks penny pool power price rich rivers rush sharp \
    short sky speed spring summer winter autumn fall april may june august monday tuesday wednesday thursday friday saturday \
    sunday january february march july september october november december english french german spanish italian irish welsh \
    chinese japanese indian american british russian dutch greek turkish polish internet google facebook amazon apple \
    microsoft twitter netflix spotify uber airbnb tesla toyota honda nissan bmw ford windows android iphone christmas easter \
    halloween god jesus bible sol ma pa ha oh ah eh uh um hm mm la le de da di du el al va ve ho lo so sa ta na ka mi si ni li \
    ai ed et ok pm am id tv pc pdf url dot com org net gov www http https dash slash underscore plus hyphen alpha bravo echo \
    foxtrot golf hotel india kilo lima november papa quebec romeo sierra tango uniform victor whiskey yankee zulu maybe data \
    media model models santa sunny happy crystal storm angel heaven genesis trinity destiny princess honey candy ginger basil \
    olive cherry berry apple lemon jasmine pepper sage ivy dawn faith grace hope joy charity patience prudence chance chase \
    guy bill bills jean jeans miles pat rob sue ray rays frank earnest ernest dean deans duke gene earl baron baker cook mason \
    carter hunter fisher porter parker taylor tyler cooper turner walker sawyer carver archer piper harper tanner cash penny \
    dollar sterling van von der den ter bin ibn abu mac pie pi phi chi psi rho tau beta gamma delta theta omega mac os \
    atm bot cctv gps faq ceo cfo cto hr usb dvd cd vat nda kpi crm sql api sms vpn isp eta asap fyi diy dj dna mri ecg icu gp hmo \
    ach cv";

/// Companies and products that look like names of people.
const COMPANIES: &str = "google facebook amazon apple microsoft twitter netflix spotify uber airbnb tesla toyota honda nissan bmw \
    ford walmart target costco ikea nike adidas sony samsung lego mercedes porsche ferrari lamborghini audi volkswagen renault \
    peugeot citroen fiat volvo kia hyundai mazda subaru suzuki yamaha kawasaki chanel gucci prada armani versace dior hermes \
    cartier rolex disney marvel pixar nintendo sega intel nvidia oracle salesforce adobe cisco dell lenovo hp ibm paypal visa \
    mastercard stripe venmo zelle siemens bosch philips nestle danone heinz kellogg cadbury hershey wendy wendys mcdonald \
    mcdonalds starbucks subway domino dominos boeing airbus lufthansa ryanair delta emirates hilton marriott hyatt sheraton \
    linux python java ruby rust swift kotlin perl alexa siri cortana slack zoom skype whatsapp instagram tiktok pinterest \
    reddit wikipedia youtube tinder bach mozart beethoven shakespeare einstein darwin newton alzheimer parkinson hodgkin";

/// Months and weekdays, whole and short.
pub const MONTHS: [(&str, u32); 23] = [
    ("january", 1),
    ("february", 2),
    ("march", 3),
    ("april", 4),
    ("may", 5),
    ("june", 6),
    ("july", 7),
    ("august", 8),
    ("september", 9),
    ("october", 10),
    ("november", 11),
    ("december", 12),
    ("jan", 1),
    ("feb", 2),
    ("mar", 3),
    ("apr", 4),
    ("jun", 6),
    ("jul", 7),
    ("aug", 8),
    ("sep", 9),
    ("sept", 9),
    ("oct", 10),
    ("nov", 11),
];

const WEEKDAYS: &str = "monday tuesday wednesday thursday friday saturday sunday dec";

/// States of the United States, provinces and regions; single words and phrases.
const REGIONS: &str = "alabama,alaska,arizona,arkansas,california,colorado,connecticut,delaware,florida,georgia,hawaii,idaho,\
    illinois,indiana,iowa,kansas,kentucky,louisiana,maine,maryland,massachusetts,michigan,minnesota,mississippi,missouri,\
    montana,nebraska,nevada,new hampshire,new jersey,new mexico,new york,north carolina,north dakota,ohio,oklahoma,oregon,\
    pennsylvania,rhode island,south carolina,south dakota,tennessee,texas,utah,vermont,virginia,washington,west virginia,\
    wisconsin,wyoming,ontario,quebec,british columbia,alberta,manitoba,saskatchewan,nova scotia,new south wales,victoria,\
    queensland,tasmania,yorkshire,kent,essex,sussex,surrey,cornwall,devon,lancashire,cumbria,bavaria,saxony,tuscany,\
    catalonia,andalusia,brittany,normandy,provence,punjab,kerala,gujarat,maharashtra,tamil nadu,karnataka,scotland,wales,\
    northern ireland,brooklyn,manhattan,queens,the bronx,staten island,harlem";

/// Short forms of the states, in capitals.
pub const STATE_CODES: &str = "AL AK AZ AR CA CO CT DE FL GA HI ID IL IN IA KS KY LA ME MD MA MI MN MS MO MT NE NV NH NJ NM NY NC \
    ND OH OK OR PA RI SC SD TN TX UT VT VA WA WV WI WY DC ON QC BC AB MB SK NS NB NSW VIC QLD TAS";

const MORE_COUNTRIES: &str = "usa,u.s.,us,uk,u.k.,america,england,great britain,britain,holland,russia,south korea,north korea,\
    czech republic,ivory coast,turkey,vietnam,syria,iran,bolivia,venezuela,tanzania,moldova,laos,united states of america,\
    united states,united kingdom,uae,the netherlands,netherlands,taiwan,palestine,congo";

/// A phrase of a list: its words and its label.
#[derive(Debug)]
pub struct Phrase {
    /// All its words but the first.
    pub rest: Vec<&'static str>,
    /// The kind of thing that it names.
    pub kind: PhraseKind,
}

/// The kind of a phrase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PhraseKind {
    /// A town of several words, or a region.
    Place,
    /// A country.
    Country,
    /// A term with a label.
    Term(Label),
}

/// Rare names, sorted. They are searched where they lie: of the words of a text few come this far.
static RARE_NAMES: &str = include_str!("lists/rare-names.txt");

/// True if a text of sorted lines in ASCII has this line.
fn is_line(text: &str, line: &str) -> bool {
    let bytes = text.as_bytes();
    let (mut from, mut to) = (0, bytes.len());
    while from < to {
        let middle = from + (to - from) / 2;
        let start = bytes[from..middle].iter().rposition(|byte| *byte == b'\n').map_or(from, |at| from + at + 1);
        let end = bytes[middle..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| middle + at);
        match bytes[start..end].cmp(line.as_bytes()) {
            std::cmp::Ordering::Equal => return start < end,
            std::cmp::Ordering::Less => from = end + 1,
            std::cmp::Ordering::Greater => to = start,
        }
    }
    false
}

/// All lists.
pub struct Lists {
    flags: HashMap<&'static str, Flags>,
    phrases: HashMap<&'static str, Vec<Phrase>>,
}

impl Lists {
    /// The lists of the program.
    pub fn get() -> &'static Self {
        static LISTS: LazyLock<Lists> = LazyLock::new(Lists::read);
        &LISTS
    }

    /// The memberships of a folded word.
    pub fn flags(&self, word: &str) -> Flags {
        self.flags.get(word).copied().unwrap_or_else(|| if is_line(RARE_NAMES, word) { RARE } else { 0 })
    }

    /// The phrases that begin with a folded word, the longest first.
    pub fn phrases(&self, word: &str) -> &[Phrase] {
        self.phrases.get(word).map_or(&[], Vec::as_slice)
    }

    fn read() -> Self {
        let mut flags: HashMap<&'static str, Flags> = HashMap::with_capacity(120_000);
        let lists = [
            (include_str!("lists/words.txt"), COMMON),
            (include_str!("lists/given.txt"), GIVEN),
            (include_str!("lists/surnames.txt"), SURNAME),
        ];
        for (text, flag) in lists {
            for word in text.lines() {
                *flags.entry(word).or_default() |= flag;
            }
        }
        let mut phrases: HashMap<&'static str, Vec<Phrase>> = HashMap::new();
        let mut add = |text: &'static str, kind: PhraseKind| {
            // Readings have no `'s` either.
            let mut words = text.split([' ', '-']).map(|word| word.strip_suffix("'s").unwrap_or(word));
            let Some(first) = words.next() else { return };
            let rest: Vec<&str> = words.collect();
            phrases.entry(first).or_default().push(Phrase { rest, kind });
        };
        for town in include_str!("lists/cities.txt").lines() {
            if town.contains([' ', '-']) {
                add(town, PhraseKind::Place);
            } else {
                *flags.entry(town).or_default() |= TOWN;
            }
        }
        for region in REGIONS.split(',') {
            add(region, PhraseKind::Place);
        }
        let countries = include_str!("lists/countries.txt").lines().chain(MORE_COUNTRIES.split(','));
        for country in countries {
            add(country, PhraseKind::Country);
        }
        let terms = [
            (include_str!("lists/conditions.txt"), Label::MedicalCondition),
            (include_str!("lists/procedures.txt"), Label::MedicalProcess),
            (include_str!("lists/drugs.txt"), Label::Drug),
            (include_str!("lists/occupations.txt"), Label::Occupation),
            (include_str!("lists/nationalities.txt"), Label::Nationality),
            (include_str!("lists/languages.txt"), Label::Language),
        ];
        for (text, label) in terms {
            for term in text.lines() {
                add(term, PhraseKind::Term(label));
            }
        }
        for line in include_str!("lists/beliefs.txt").lines() {
            if let Some((term, label)) = line.split_once('\t')
                && let Some(label) = Label::named(label)
            {
                add(term, PhraseKind::Term(label));
            }
        }
        for found in phrases.values_mut() {
            found.sort_by_key(|phrase| std::cmp::Reverse(phrase.rest.len()));
        }
        for word in NO_NAMES.split_whitespace() {
            let entry = flags.entry(word).or_default();
            *entry |= COMMON;
        }
        for word in include_str!("lists/names-by-hand.txt").split_whitespace() {
            *flags.entry(word).or_default() |= GIVEN;
        }
        for word in FIRM_NAMES.split_whitespace() {
            *flags.entry(word).or_default() |= FIRM | GIVEN;
        }
        for word in COMPANIES.split_whitespace() {
            *flags.entry(word).or_default() |= COMPANY;
        }
        for word in MONTHS.iter().map(|(month, _)| *month).chain(WEEKDAYS.split_whitespace()) {
            *flags.entry(word).or_default() |= CALENDAR;
        }
        Self { flags, phrases }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_found_and_nothing_else() {
        for text in ["ada\nbo\ncyrus\ndi\n", "ada\nbo\ncyrus", "ada\n", ""] {
            for line in text.lines() {
                assert!(is_line(text, line), "{line} of {text:?}");
            }
            for other in ["", "a", "ad", "adam", "b", "cyru", "cyruss", "zed"] {
                assert!(!is_line(text, other), "{other} of {text:?}");
            }
        }
        assert!(RARE_NAMES.lines().is_sorted());
        assert!(RARE_NAMES.lines().step_by(997).all(|name| Lists::get().flags(name) == RARE));
        assert_eq!(Lists::get().flags("zzzzzz"), 0);
    }
}
