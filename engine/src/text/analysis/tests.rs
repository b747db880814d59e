use super::*;

fn words(text: &str) -> Vec<Word> {
    let times = text.split_whitespace().enumerate();
    times
        .map(|(at, text)| Word {
            text: text.into(),
            start: at as u64 * 300,
            end: at as u64 * 300 + 250,
            confidence: 0.9,
            speaker: None,
            speaker_name: None,
            channel: None,
        })
        .collect()
}

fn hidden(text: &str) -> String {
    redact_text(text, &Redaction::default()).0
}

/// Pieces of random texts: cues, values, names, marks, scripts, half-finished numbers; one is empty.
const PIECES: &str = "my name is John Smith priya raman, I live at 12 Oak Street, call me on 555-0132 (415) five five oh \
    double three hundred password pin hunter2! and jo dot com. x@y.org born March 3rd nineteen eighty \
    card 4111 1111 social security Dr. what's your? [PERSON_NAME] #### 日本語 مرحبا — ()  's O'Brien's b \
    as in boy 🙂 é ß +44 $5 http:// GB29 NWBK 6016 plus slash from Leeds the of May diabetes have years \
    old A1B2C3";

/// A random text from a seed (xorshift).
fn random(seed: u64, length: usize) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let pieces: Vec<&str> = PIECES.split(' ').collect();
    let mut text = String::new();
    for _ in 0..length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        text.push_str(pieces[(state % pieces.len() as u64) as usize]);
        text.push_str(if state.is_multiple_of(11) { "  " } else { " " });
    }
    text
}

#[test]
fn personal_words_are_hidden_in_both_readings() {
    for (text, expected) in [
        ("Call 415-555-0132 now.", "Call [PHONE_NUMBER] now."),
        ("my number is four one five five five five oh one three two", "my number is [PHONE_NUMBER]"),
        ("jo at example dot com", "[EMAIL_ADDRESS]"),
        ("Write to jo@example.com, please.", "Write to [EMAIL_ADDRESS], please."),
        ("My password is hunter2!", "My password is [PASSWORD]"),
        ("Card 4111 1111 1111 1111, thanks", "Card [CREDIT_CARD_NUMBER], thanks"),
        ("IBAN GB29 NWBK 6016 1331 9268 19.", "IBAN [BANKING_INFORMATION]."),
        ("my name is priya raman and i live in leeds", "my name is [PERSON_NAME] and i live in [LOCATION]"),
        ("I met John Smith's wife.", "I met [PERSON_NAME]'s wife."),
        (
            "What's your date of birth? March third, nineteen eighty five.",
            "What's your date of birth? [DATE_OF_BIRTH].",
        ),
        ("It's spelled K-O-W-A-L-S-K-I.", "It's spelled [PERSON_NAME]."),
        ("the server is one nine two dot one six eight dot one dot one", "the server is [IP_ADDRESS]"),
        ("He takes metformin for his type two diabetes.", "He takes [DRUG] for his [MEDICAL_CONDITION]."),
        ("I am a nurse. She is Catholic.", "I am a [OCCUPATION]. She is [RELIGION]."),
        ("VIN 1HGCM82633A004352", "VIN [VEHICLE_ID]"),
        ("I live at 12 Oak Street, Springfield, Illinois 62704.", "I live at [LOCATION]."),
        (
            "My daughter was diagnosed with lupus nephritis last year.",
            "My daughter was diagnosed with [MEDICAL_CONDITION] last year.",
        ),
        ("The letter is for Baby Maria Lopez.", "The letter is for Baby [PERSON_NAME]."),
    ] {
        assert_eq!(hidden(text), expected);
    }
}

#[test]
fn names_are_told_by_the_words_around_them() {
    for (text, expected) in [
        // Names that few bear, with a name of the same kind or a capital beside them.
        ("We saw Gdula Batrez again.", "We saw [PERSON_NAME] again."),
        ("i paid gdula batrez again", "i paid [PERSON_NAME] again"),
        ("Then Fevold replied.", "Then [PERSON_NAME] replied."),
        // Family names with an apostrophe that lists lack.
        ("I saw Zorblax O'Neal there.", "I saw [PERSON_NAME] there."),
        ("We met Zorblax D'Souza there.", "We met [PERSON_NAME] there."),
        // Kinship, work and address announce a name.
        ("My grandson Zorblax is here.", "My grandson [PERSON_NAME] is here."),
        ("The plumber Zorblax never came.", "The plumber [PERSON_NAME] never came."),
        ("the cheque is made out to zorblax frumious", "the cheque is made out to [PERSON_NAME]"),
        ("i have a son called zorblax", "i have a son called [PERSON_NAME]"),
        ("who's zorblax", "who's [PERSON_NAME]"),
        ("Everyone calls me Zorblax.", "Everyone calls me [PERSON_NAME]."),
        // Names in a row, and the rest of a name.
        ("I met Maria Lopez and Zorblax there.", "I met [PERSON_NAME] and [PERSON_NAME] there."),
        ("I met Maria Lopez, Fevold and Zorblax.", "I met [PERSON_NAME], [PERSON_NAME] and [PERSON_NAME]."),
        ("The office of Zorblax Maria Lopez.", "The office of [PERSON_NAME]."),
        // An owner without a mark, once the name is known.
        ("my name is zorblax and that is zorblaxs phone", "my name is [PERSON_NAME] and that is [PERSON_NAME] phone"),
    ] {
        assert_eq!(hidden(text), expected);
    }
}

#[test]
fn names_that_a_comma_or_a_colon_sets_apart_are_hidden() {
    for (text, expected) in [
        ("Smith, John A. (Accounts)", "[PERSON_NAME]. (Accounts)"),
        ("CHAPIN: I think that it works.", "[PERSON_NAME]: I think that it works."),
        ("Chapin, can I ask you something?", "[PERSON_NAME], can I ask you something?"),
        ("Telefono: 912 345 678", "Telefono: [PHONE_NUMBER]"),
    ] {
        assert_eq!(hidden(text), expected);
    }
    for text in ["Boston, can I ask you something?", "NOTE: I think that it works.", "Figures: 912 345 678"] {
        assert_eq!(hidden(text), text);
    }
}

#[test]
fn what_bears_a_name_or_looks_like_one_stays() {
    for text in [
        "The jack of hearts is missing.",
        "the pasta should be al dente",
        "Earlier versions had it as a Stanford corruption of bar.",
        "We visited Garin Utilities in spring.",
        "The patient's Medicare number is new.",
        "Ask the Okafor Country Club about it.",
        "It was due on 12 March 2020 in the end.",
        "it's called zorblax and it was five o'clock",
    ] {
        assert_eq!(hidden(text), text);
    }
}

#[test]
fn nationalities_are_hidden_where_a_person_has_them() {
    for (text, expected) in [
        ("She is Malagasy and he's half Kyrgyz.", "She is [NATIONALITY] and he's half [NATIONALITY]."),
        ("He holds a Bhutanese passport.", "He holds a [NATIONALITY] passport."),
        ("As a Latvian citizen, do I need a visa?", "As a [NATIONALITY] citizen, do I need a visa?"),
        ("My Ghanaian grandmother sang.", "My [NATIONALITY] grandmother sang."),
        ("I am of Turkish descent.", "I am of [NATIONALITY] descent."),
    ] {
        assert_eq!(hidden(text), expected);
    }
    for text in ["We love the Turkish food here.", "The Cuban government resigned.", "A Thai bank bought it."] {
        assert_eq!(hidden(text), text);
    }
}

#[test]
fn births_ages_and_towns_are_told_by_their_cues() {
    for (text, expected) in [
        ("My birthday is on 14/3 this year.", "My birthday is on [DATE_OF_BIRTH] this year."),
        ("It's my birthday, I'll turn 6.", "It's my birthday, I'll turn [PERSON_AGE]."),
        ("they found my car in scunthorpe", "they found my car in [LOCATION]"),
        ("We flew into Albuquerque.", "We flew into [LOCATION]."),
        ("I was born on the 2nd of May 1977.", "I was born on the [DATE_OF_BIRTH]."),
    ] {
        assert_eq!(hidden(text), expected);
    }
    for text in ["Open it on page 14/3 of it.", "Reykjavik is lovely in spring.", "Turn 6 degrees to the left."] {
        assert_eq!(hidden(text), text);
    }
}

#[test]
fn harmless_words_stay() {
    for text in [
        "The password must have at least eight characters.",
        "Mark the box, and I will bill you in May.",
        "Italian food is my favorite, and Paris is lovely in spring.",
        "The order number is 48210 and it ships on Monday.",
        "A nurse took my temperature.",
        "Call back later, the line is busy.",
        "It took us forty five minutes to drive two hundred miles.",
        "Version 2.4.1 was released on 12 March 2020 for 50 dollars.",
        "We visited the museum at Stanford University.",
        "The named field is empty.",
        "These patterns are known as kolam here.",
        "If the Pauli principle is violated, it fails.",
        "They stay at another point in the tree.",
    ] {
        assert_eq!(hidden(text), text);
    }
}

#[test]
fn a_number_that_fails_its_check_is_no_card_without_a_cue() {
    let label = |text: &str| redact_text(text, &Redaction::default()).1.first().map(|span| span.label);
    assert_eq!(label("It reads 4111111111111111 on top"), Some(Label::CreditCardNumber));
    assert_eq!(label("It reads 4111111111111112 on top"), None);
    assert_eq!(label("My card is 4111111111111112"), Some(Label::CreditCardNumber));
    assert_eq!(label("It reads GB29NWBK60161331926819 on top"), Some(Label::BankingInformation));
    assert_eq!(label("It reads GB29NWBK60161331926818 on top"), None);
}

#[test]
fn masking_is_idempotent_and_leaves_nothing_to_find() {
    for substitution in [Substitution::EntityName, Substitution::Hash] {
        let redaction = Redaction { labels: None, substitution };
        for seed in 1..400 {
            let text = random(seed, 5 + seed as usize % 60);
            let (once, _) = redact_text(&text, &redaction);
            let (twice, spans) = redact_text(&once, &redaction);
            assert_eq!(once, twice, "{text:?}: {spans:?}");
            let masked = redact(&words(&text), &redaction, None).unwrap();
            let again = redact(&masked.words, &redaction, None).unwrap();
            assert_eq!(masked.words, again.words, "{text:?}");
            assert!(again.hidden.is_empty(), "{text:?}");
        }
    }
}

#[test]
fn times_never_change() {
    for seed in 1..400 {
        let before = words(&random(seed, 40));
        let after = redact(&before, &Redaction::default(), None).unwrap();
        let mut at = 0;
        for word in &after.words {
            assert_eq!(word.start, before[at].start);
            while before[at].end < word.end {
                at += 1;
            }
            assert_eq!(word.end, before[at].end);
            at += 1;
        }
        assert_eq!(at, before.len());
        assert_eq!(after.hidden.len(), after.spans_ms.len());
    }
}

#[test]
fn text_outside_the_spans_stays_and_the_spans_are_exact() {
    for seed in 1..400 {
        let text = random(seed, 30);
        let (redacted, spans) = redact_text(&text, &Redaction::default());
        let letters: Vec<char> = text.chars().collect();
        let (mut rebuilt, mut at) = (String::new(), 0);
        for span in &spans {
            assert_eq!(letters[span.start_char..span.end_char].iter().collect::<String>(), span.text);
            rebuilt.extend(&letters[at..span.start_char]);
            rebuilt.push_str(&format!("[{}]", span.label.name()));
            at = span.end_char;
        }
        rebuilt.extend(&letters[at..]);
        assert_eq!(rebuilt, redacted);
    }
}

#[test]
fn no_name_crosses_the_change_of_speakers() {
    let mut said = words("my name is Priya Raman sure");
    for word in &mut said[4..] {
        word.speaker = Some("B".into());
    }
    let hidden = redact(&said, &Redaction::default(), None).unwrap();
    assert!(hidden.words.iter().all(|word| word.end - word.start == 250), "{:?}", hidden.words);
}

#[test]
fn only_named_labels_are_hidden() {
    let redaction = Redaction { labels: Some(vec![Label::PhoneNumber, Label::MoneyAmount]), ..Redaction::default() };
    let text = "John Smith paid 50 dollars, call 415-555-0132.";
    assert_eq!(redact_text(text, &redaction).0, "John Smith paid [MONEY_AMOUNT], call [PHONE_NUMBER].");
    let hash = Redaction { substitution: Substitution::Hash, ..Redaction::default() };
    assert_eq!(redact_text("I met John Smith.", &hash).0, "I met #########.");
}

#[test]
fn entities_show_masks_and_what_is_not_hidden() {
    let passes = Passes { redaction: Some(Redaction::default()), entities: true, ..Passes::default() };
    let done = analyze(words("My name is John Smith. I paid 50 dollars."), Some("en"), &passes, None).unwrap();
    let found: Vec<(String, Label, u64, u64)> = done
        .analysis
        .entities
        .unwrap()
        .into_iter()
        .map(|entity| (entity.text, entity.label, entity.start, entity.end))
        .collect();
    assert_eq!(
        found,
        [("[PERSON_NAME]".into(), Label::PersonName, 900, 1450), ("50 dollars".into(), Label::MoneyAmount, 2100, 2650),]
    );
    assert_eq!(done.text.as_deref(), Some("My name is [PERSON_NAME]. I paid 50 dollars."));
}

#[test]
fn redaction_in_a_language_without_it_is_an_error() {
    let passes = Passes { redaction: Some(Redaction::default()), ..Passes::default() };
    for language in [Some("fr"), Some("xx"), None] {
        assert!(analyze(words("Je m'appelle Jean"), language, &passes, None).is_err());
        assert!(analyze(Vec::new(), language, &passes, None).unwrap().words.is_empty());
    }
    assert!(analyze(words("hello"), Some("EN_us"), &passes, None).is_ok());
}

#[test]
fn what_was_not_asked_changes_nothing() {
    let said = words("My name is John Smith, you bastard");
    let done = analyze(said.clone(), Some("en"), &Passes::default(), None).unwrap();
    assert_eq!((done.words, done.text, done.analysis), (said.clone(), None, Analysis::default()));
    let filter = Passes { profanity_filter: true, ..Passes::default() };
    assert_eq!(
        analyze(said.clone(), Some("en"), &filter, None).unwrap().text.as_deref(),
        Some("My name is John Smith, you b******")
    );
    assert_eq!(analyze(said.clone(), Some("xx"), &filter, None).unwrap().words, said);
}

/// Texts with plain marks; each is an input that apostrophes or quotation marks decide.
const MARKED: &str = "I don't love it. It isn't good. \"Not bad at all!\" It wasn't bad. I couldn't be happier.\n\
    I met John Smith's wife. My name's Jo O'Neal. What's your name? It's Tom Becker.\n\
    My password is 'hunter2!' and Anna's username is \"jo_smith\".\n\
    She said \"call 415-555-0132\" and D'Souza's card is \"4111 1111 1111 1111\".\n\
    He's a 'shit-faced' driver, that bastard's brother's pistol was the murderer's.\n\
    Let's move on to the ferry's terminal. The ferry's terminal won't open. 'The end.' So it's late.";

/// The same text in typographic forms.
fn typographic(text: &str) -> Vec<String> {
    let quoted = |(open, close): (&str, &str)| {
        let pieces = text.split('"').enumerate();
        let quoted =
            |(at, piece)| if at == 0 { String::from(piece) } else { format!("{}{piece}", [close, open][at % 2]) };
        pieces.map(quoted).collect::<String>()
    };
    let quotes = [("“", "”"), ("„", "“"), ("«", "»"), ("»", "«")].map(quoted);
    let apostrophes = ["\u{2019}", "\u{2018}", "\u{2bc}", "\u{ff07}"];
    quotes.iter().zip(apostrophes).map(|(text, mark): (&String, _)| text.replace('\'', mark)).collect()
}

#[test]
fn typographic_and_plain_marks_give_the_same_analysis() {
    let redaction = Some(Redaction::default());
    let most = Passes {
        entities: true,
        sentiment: true,
        moderation: true,
        chapters: true,
        summary: Some(summary::SummaryForm::Paragraph),
        ..Passes::default()
    };
    let headline = Passes { summary: Some(summary::SummaryForm::Headline), ..Passes::default() };
    let masked = Passes { redaction, profanity_filter: true, ..most.clone() };
    for (line, language) in MARKED.lines().zip(["en"; 6]).chain([("L'eau de l'école d'été n'est pas \"bonne\".", "fr")])
    {
        for text in typographic(line) {
            for passes in [&most, &headline, &masked] {
                let done = |text: &str| {
                    let passes =
                        if language == "en" { passes.clone() } else { Passes { redaction: None, ..passes.clone() } };
                    analyze(words(text), Some(language), &passes, None).unwrap()
                };
                let (found, expected) = (done(&text), done(line));
                let plain_json = serde_json::to_string(&found.analysis).unwrap();
                let plain_json = crate::text::quote_marks::plain(&plain_json.replace("\\\"", "\u{201c}")).into_owned();
                let expected_json = serde_json::to_string(&expected.analysis).unwrap().replace("\\\"", "\"");
                assert_eq!(plain_json, expected_json, "{text}");
                assert_eq!(*crate::text::quote_marks::plain_words(&found.words), *expected.words, "{text}");
            }
            let (hidden, spans) = redact_text(&text, &Redaction::default());
            let (plain_hidden, plain_spans) = redact_text(line, &Redaction::default());
            assert_eq!(crate::text::quote_marks::plain(&hidden), plain_hidden, "{text}");
            let places = |spans: &[Span]| {
                spans.iter().map(|span| (span.label, span.start_char, span.end_char)).collect::<Vec<_>>()
            };
            assert_eq!(places(&spans), places(&plain_spans), "{text}");
            for span in WrittenText::new(&text).entities() {
                let chars: String = text.chars().skip(span.start_char).take(span.end_char - span.start_char).collect();
                assert_eq!(span.text, chars, "the span is the text's own");
            }
            let masked = profanity::mask_text(&text, language);
            assert_eq!(crate::text::quote_marks::plain(&masked), profanity::mask_text(line, language), "{text}");
        }
    }
}

#[test]
fn a_negation_counts_with_every_apostrophe() {
    use sentiment::Sentiment::{Negative, Positive};
    let passes = Passes { sentiment: true, ..Passes::default() };
    for (text, expected) in [
        ("I don’t love it.", Negative),
        ("It isnʼt good.", Negative),
        ("I don＇t like this product.", Negative),
        ("“Not bad at all!”", Positive),
        ("I love the ‘new’ one.", Positive),
    ] {
        let found = analyze(words(text), Some("en"), &passes, None).unwrap().analysis.sentiment_results.unwrap();
        assert_eq!((found[0].sentiment, found[0].text.as_str()), (expected, text));
    }
}

#[test]
fn passes_that_a_language_lacks_are_named() {
    let mut passes =
        Passes { entities: true, sentiment: true, moderation: true, profanity_filter: true, ..Passes::default() };
    assert_eq!(passes.left_out(Some("en-US")), [""; 0]);
    assert_eq!(
        passes.left_out(Some("de")),
        [
            "entity detection was left out: it cannot be done in de",
            "sentiment analysis was left out: it cannot be done in de",
            "content moderation was left out: it cannot be done in de",
        ]
    );
    assert_eq!(passes.left_out(Some("ja")).len(), 4);
    passes = Passes { sentiment: true, chapters: true, summary: Some(summary::SummaryForm::Gist), ..Passes::default() };
    assert_eq!(passes.left_out(None), ["sentiment analysis was left out: the language is not known"]);
    passes.sentiment = false;
    assert_eq!(passes.left_out(None), [""; 0], "chapters and summaries are made in any language");
}
