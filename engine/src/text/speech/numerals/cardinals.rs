//! Whole numbers in words: German, French, Spanish, Italian, Portuguese of Brazil, Dutch.

use super::Language::{self, Dutch, French, German, Italian, Portuguese, Spanish};

/// Largest number that is said as one.
pub(super) const MAX: u64 = 999_999_999_999_999;

/// Words with spaces between them.
type Words = &'static str;

/// 0 to 19, in the order of [`Language`].
const SMALL: [Words; 6] = [
    "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn \
     siebzehn achtzehn neunzehn",
    "zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize dix-sept \
     dix-huit dix-neuf",
    "cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciséis \
     diecisiete dieciocho diecinueve",
    "zero uno due tre quattro cinque sei sette otto nove dieci undici dodici tredici quattordici quindici \
     sedici diciassette diciotto diciannove",
    "zero um dois três quatro cinco seis sete oito nove dez onze doze treze catorze quinze dezesseis dezessete \
     dezoito dezenove",
    "nul één twee drie vier vijf zes zeven acht negen tien elf twaalf dertien veertien vijftien zestien \
     zeventien achttien negentien",
];

/// 20 to 90.
const TENS: [Words; 6] = [
    "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig",
    "vingt trente quarante cinquante soixante soixante quatre-vingt quatre-vingt",
    "veinte treinta cuarenta cincuenta sesenta setenta ochenta noventa",
    "venti trenta quaranta cinquanta sessanta settanta ottanta novanta",
    "vinte trinta quarenta cinquenta sessenta setenta oitenta noventa",
    "twintig dertig veertig vijftig zestig zeventig tachtig negentig",
];

/// 21 to 29 in Spanish.
const VEINTI: Words =
    "veintiuno veintidós veintitrés veinticuatro veinticinco veintiséis veintisiete veintiocho veintinueve";

/// 100 to 900 with more behind it, in Spanish and Portuguese.
const CIENTOS: Words =
    "ciento doscientos trescientos cuatrocientos quinientos seiscientos setecientos ochocientos novecientos";
const CENTOS: Words = "cento duzentos trezentos quatrocentos quinhentos seiscentos setecentos oitocentos novecentos";

/// The word at a place of a list.
pub(super) fn word(words: Words, at: usize) -> &'static str {
    words.split(' ').nth(at).unwrap_or_default()
}

/// A power of ten from a million on: one of it, and its plural.
type Scale = (u64, &'static str, &'static str);

impl Language {
    /// A number up to [`MAX`] in words.
    pub(super) fn cardinal(self, number: u64) -> String {
        let (mut parts, mut rest) = (Vec::new(), number);
        for (value, one, many) in self.scales() {
            match rest / value {
                0 => {}
                1 => parts.push((*one).to_owned()),
                count => parts.push(format!("{} {many}", self.before_noun(count))),
            }
            rest %= value;
        }
        if rest == 0 && !parts.is_empty() {
            return parts.join(" ");
        }
        let last = self.below_a_million(rest);
        let joins = match self {
            Italian => true,
            Portuguese => is_joined(rest),
            _ => false,
        };
        match parts.is_empty() {
            true => last,
            false => format!("{}{}{last}", parts.join(" "), if joins { " e " } else { " " }),
        }
    }

    /// A number as it is said before a masculine noun: "veintiún", "un".
    pub(super) fn before_noun(self, number: u64) -> String {
        let said = self.cardinal(number);
        match self {
            German => said.strip_suffix("eins").map_or(said.clone(), |start| format!("{start}ein")),
            Spanish if said.ends_with("veintiuno") => said.replace("veintiuno", "veintiún"),
            Spanish | Italian if said == "uno" || said.ends_with(" uno") => said[..said.len() - 1].to_owned(),
            _ => said,
        }
    }

    /// A year: German and Dutch count the hundreds up to 1999.
    pub(super) fn year(self, year: u64) -> String {
        match (self, year) {
            (German | Dutch, 1_100..=1_999) => {
                let hundred = if self == German { "hundert" } else { "honderd" };
                let rest = if year.is_multiple_of(100) { String::new() } else { self.below_a_hundred(year % 100) };
                format!("{}{hundred}{rest}", self.below_a_hundred(year / 100))
            }
            _ => self.cardinal(year),
        }
    }

    /// 0 to 19.
    fn small(self, number: usize) -> &'static str {
        word(SMALL[self as usize], number)
    }

    fn scales(self) -> &'static [Scale] {
        const MILLION: u64 = 1_000_000;
        match self {
            German => &[
                (MILLION * MILLION, "eine Billion", "Billionen"),
                (1_000 * MILLION, "eine Milliarde", "Milliarden"),
                (MILLION, "eine Million", "Millionen"),
            ],
            French => &[
                (MILLION * MILLION, "un billion", "billions"),
                (1_000 * MILLION, "un milliard", "milliards"),
                (MILLION, "un million", "millions"),
            ],
            Spanish => &[(MILLION * MILLION, "un billón", "billones"), (MILLION, "un millón", "millones")],
            Italian => &[
                (MILLION * MILLION, "un bilione", "bilioni"),
                (1_000 * MILLION, "un miliardo", "miliardi"),
                (MILLION, "un milione", "milioni"),
            ],
            Portuguese => &[
                (MILLION * MILLION, "um trilhão", "trilhões"),
                (1_000 * MILLION, "um bilhão", "bilhões"),
                (MILLION, "um milhão", "milhões"),
            ],
            Dutch => &[
                (MILLION * MILLION, "een biljoen", "biljoen"),
                (1_000 * MILLION, "een miljard", "miljard"),
                (MILLION, "een miljoen", "miljoen"),
            ],
        }
    }

    fn below_a_million(self, number: u64) -> String {
        let (thousands, rest) = (number / 1_000, number % 1_000);
        let said = self.below_a_thousand(rest);
        if thousands == 0 {
            return said;
        }
        let thousand = match self {
            German => format!("{}tausend", self.before_noun(thousands)),
            Dutch if thousands == 1 => "duizend".into(),
            Dutch => format!("{}duizend", self.below_a_thousand(thousands)),
            Italian if thousands == 1 => "mille".into(),
            // The accent is the last syllable's.
            Italian => format!("{}mila", self.below_a_thousand(thousands).replace('é', "e")),
            French if thousands == 1 => "mille".into(),
            French => {
                // Hundreds and twenties have an s at the end alone.
                let count = self.below_a_thousand(thousands);
                let plural = count.ends_with("cents") || count.ends_with("vingts");
                format!("{} mille", if plural { &count[..count.len() - 1] } else { count.as_str() })
            }
            Spanish | Portuguese if thousands == 1 => "mil".into(),
            Spanish | Portuguese => format!("{} mil", self.before_noun(thousands)),
        };
        match self {
            _ if rest == 0 => thousand,
            Italian if rest == 3 => thousand + "tré",
            German | Dutch | Italian => thousand + &said,
            Portuguese if is_joined(rest) => format!("{thousand} e {said}"),
            French | Spanish | Portuguese => format!("{thousand} {said}"),
        }
    }

    fn below_a_thousand(self, number: u64) -> String {
        let (hundreds, rest) = ((number / 100) as usize, number % 100);
        let said = self.below_a_hundred(rest);
        if hundreds == 0 {
            return said;
        }
        let digit = self.small(hundreds);
        let hundred = match (self, hundreds) {
            (German, 1) => "einhundert".into(),
            (German, _) => format!("{digit}hundert"),
            (Dutch, 1) => "honderd".into(),
            (Dutch, _) => format!("{digit}honderd"),
            (Italian, 1) => "cento".into(),
            (Italian, _) => format!("{digit}cento"),
            (French, 1) => "cent".into(),
            (French, _) if rest == 0 => format!("{digit} cents"),
            (French, _) => format!("{digit} cent"),
            (Spanish, 1) if rest == 0 => "cien".into(),
            (Spanish, _) => word(CIENTOS, hundreds - 1).into(),
            (Portuguese, 1) if rest == 0 => "cem".into(),
            (Portuguese, _) => word(CENTOS, hundreds - 1).into(),
        };
        match self {
            _ if rest == 0 => hundred,
            Italian if rest == 3 => hundred + "tré",
            Italian if said.starts_with('o') => hundred[..hundred.len() - 1].to_owned() + &said,
            German | Dutch | Italian => hundred + &said,
            French | Spanish => format!("{hundred} {said}"),
            Portuguese => format!("{hundred} e {said}"),
        }
    }

    fn below_a_hundred(self, number: u64) -> String {
        let number = number as usize;
        if number < 20 {
            return self.small(number).into();
        }
        let (tens, digit) = (number / 10, number % 10);
        let ten = word(TENS[self as usize], tens - 2);
        match (self, tens, digit) {
            (French, 8, 0) => "quatre-vingts".into(),
            (French, 7, 1) => "soixante et onze".into(),
            (French, 7 | 9, _) => format!("{ten}-{}", self.small(10 + digit)),
            (_, _, 0) => ten.into(),
            (French, 2..=6, 1) => format!("{ten} et un"),
            (French, ..) => format!("{ten}-{}", self.small(digit)),
            (German, _, 1) => format!("einund{ten}"),
            (German, ..) => format!("{}und{ten}", self.small(digit)),
            (Dutch, _, 1) => format!("eenen{ten}"),
            (Dutch, _, 2 | 3) => format!("{}ën{ten}", self.small(digit)),
            (Dutch, ..) => format!("{}en{ten}", self.small(digit)),
            (Spanish, 2, _) => word(VEINTI, digit - 1).into(),
            (Spanish, ..) => format!("{ten} y {}", self.small(digit)),
            (Portuguese, ..) => format!("{ten} e {}", self.small(digit)),
            (Italian, _, 1 | 8) => format!("{}{}", &ten[..ten.len() - 1], self.small(digit)),
            (Italian, _, 3) => format!("{ten}tré"),
            (Italian, ..) => format!("{ten}{}", self.small(digit)),
        }
    }
}

/// True if Portuguese puts an "e" before the last group.
fn is_joined(rest: u64) -> bool {
    rest < 100 || (rest < 1_000 && rest.is_multiple_of(100))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_said_as_speakers_say_them() {
        for (language, number, said) in [
            (German, 0, "null"),
            (German, 121, "einhunderteinundzwanzig"),
            (German, 101_001, "einhunderteintausendeins"),
            (German, 2_000_016, "zwei Millionen sechzehn"),
            (French, 71, "soixante et onze"),
            (French, 80, "quatre-vingts"),
            (French, 98, "quatre-vingt-dix-huit"),
            (French, 200, "deux cents"),
            (French, 80_201, "quatre-vingt mille deux cent un"),
            (French, 1_000_000_000, "un milliard"),
            (Spanish, 100, "cien"),
            (Spanish, 122, "ciento veintidós"),
            (Spanish, 21_035, "veintiún mil treinta y cinco"),
            (Spanish, 2_000_000_000, "dos mil millones"),
            (Italian, 23, "ventitré"),
            (Italian, 3_103, "tremilacentotré"),
            (Italian, 1_988, "millenovecentottantotto"),
            (Italian, 2_021, "duemilaventuno"),
            (Portuguese, 1_234, "mil duzentos e trinta e quatro"),
            (Portuguese, 1_100, "mil e cem"),
            (Portuguese, 2_000_000, "dois milhões"),
            (Dutch, 22, "tweeëntwintig"),
            (Dutch, 1_101, "duizendhonderdéén"),
            (Dutch, 31_000, "eenendertigduizend"),
        ] {
            assert_eq!(language.cardinal(number), said);
        }
    }

    #[test]
    fn every_number_has_words() {
        for language in [German, French, Spanish, Italian, Portuguese, Dutch] {
            let numbers = (0..20_000).chain((0..60).map(|power| MAX >> power));
            let mut all: Vec<(String, u64)> = numbers.map(|number| (language.cardinal(number), number)).collect();
            all.sort_unstable();
            all.dedup();
            let same: Vec<_> = all.windows(2).filter(|pair| pair[0].0 == pair[1].0).collect();
            assert!(same.is_empty(), "{language:?}: {same:?}");
        }
    }

    #[test]
    fn years_count_hundreds_where_speakers_do() {
        assert_eq!(German.year(1_987), "neunzehnhundertsiebenundachtzig");
        assert_eq!(German.year(1_900), "neunzehnhundert");
        assert_eq!(German.year(2_026), "zweitausendsechsundzwanzig");
        assert_eq!(Dutch.year(1_815), "achttienhonderdvijftien");
        assert_eq!(French.year(1_987), "mille neuf cent quatre-vingt-sept");
    }

    #[test]
    fn a_noun_shortens_one() {
        assert_eq!([German, Spanish, Italian].map(|language| language.before_noun(1)), ["ein", "un", "un"]);
        assert_eq!(Spanish.before_noun(21), "veintiún");
        assert_eq!(Spanish.before_noun(31), "treinta y un");
        assert_eq!(Italian.before_noun(21), "ventuno");
    }
}
