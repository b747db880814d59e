//! Phrases that announce what follows them: "my password is", "date of birth".

use std::collections::HashMap;
use std::ops::Range;
use std::sync::LazyLock;

use super::reading::{Break, Reading};

/// The thing that a phrase announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cue {
    /// A telephone number.
    Phone,
    /// A number of a payment card.
    Card,
    /// The security code of a card.
    Cvv,
    /// The month in which a card expires.
    Expiry,
    /// A social security number.
    Ssn,
    /// A number of an account.
    Account,
    /// A bank's code, an account of a bank.
    Bank,
    /// A password or a PIN.
    Secret,
    /// A passport.
    Passport,
    /// A driver's license.
    License,
    /// A patient's or an insurance's number.
    Health,
    /// A license plate or a vehicle's number.
    Vehicle,
    /// A postal code.
    Zip,
    /// A day of birth.
    Birth,
    /// An e-mail address.
    Email,
    /// A name of an account.
    Username,
    /// A web address.
    Url,
    /// An address of the internet protocol.
    Ip,
    /// A postal address.
    Address,
    /// A number that is nobody's: of an order, a flight, a page.
    Harmless,
}

const CUES: &[(Cue, &str)] = &[
    (
        Cue::Phone,
        "phone,telephone,cell,mobile,cellphone,fax,whatsapp,landline,call me,call him,call her,call us,call them,text me,reach me,\
         reach him,reach her,reach us,contact number,callback number,call back,phone number,my number,his number,her number,\
         their number,our number,your number,dial,ring me,tel,number to reach,best number,voicemail,contact me,hotline,extension,\
         telephone number,mobile number,cell number,emergency contact,pager,give me a ring,number is,number was,reached on,reached at,phone's,sms,ring,\
         give me a call,give him a call,give her a call,signal,telegram,daytime number,work number,home number,new number,telefon,mobil,rufnummer,\
         telefonnummer,telefono,movil,cellulare,telefoon,mobiel",
    ),
    (
        Cue::Card,
        "card number,credit card,debit card,card,visa,mastercard,amex,american express,discover card,card ending,card on file,\
         credit card number,debit card number,payment card,long number,maestro",
    ),
    (
        Cue::Cvv,
        "cvv,cvc,cvv2,cv v,c v v,c v c,security code,card verification,three digits on the back,digits on the back,csc,cid,\
         verification value,three digit code,code on the back,number on the back,3 digits on the back,3-digit code,back of the card,\
         back of my card",
    ),
    (
        Cue::Expiry,
        "expires,expiry,expiration,expiration date,expiry date,exp,exp date,expiring,valid through,valid until,valid thru,good through,\
         good until,good thru,expire,valid till",
    ),
    (
        Cue::Ssn,
        "social security,social security number,ssn,social,s s n,tax id,taxpayer,itin,socials,national insurance,\
         national insurance number,soc,tax identification number",
    ),
    (
        Cue::Account,
        "account number,account,acct,acct number,customer number,customer id,client number,client id,member number,membership number,\
         membership,policy number,policy,loyalty number,frequent flyer,employee id,employee number,student id,student number,\
         staff number,badge number,user number,subscriber number,account id,account ending,reward number,rewards number,\
         loyalty card,library card,case number,claim number,reference number,utility account,member id,savings account,\
         checking account,customer reference,frequent flyer number,meter number,id number,national id,aadhaar,aadhaar number,identity card,identity number,\
         personnel number,loan number,mortgage number",
    ),
    (
        Cue::Bank,
        "routing number,routing,sort code,iban,swift,swift code,bic,bank code,transit number,bank account,bank account number,aba,\
         wire to,i b a n,bank details,aba number,bsb",
    ),
    (
        Cue::Secret,
        "password,passcode,pass code,passphrase,pass phrase,pin,pin number,pin code,access code,door code,gate code,alarm code,\
         verification code,one-time code,one time code,one-time password,one time password,otp,security pin,passwort,pass word,\
         wifi password,wi-fi password,secret code,unlock code,login code,authentication code,entry code,safe combination,\
         combination,secret word,security word,security answer,lock code,voicemail code,backup code,recovery code,secret phrase,\
         memorable word,confirmation code,two factor code,keypad code,passkey,credentials,api key,secret key,garage code,safe code",
    ),
    (Cue::Passport, "passport,passport number,passport no"),
    (
        Cue::License,
        "driver's license,drivers license,driver license,driver's licence,drivers licence,driving licence,driving license,\
         license number,licence number,driver's license number,dl number,driver's lic,driver's permit,d l number,driver,licence,license",
    ),
    (
        Cue::Health,
        "medicare,medicaid,nhs number,nhs,health insurance,insurance id,medical record,medical record number,mrn,patient id,\
         patient number,health card,health plan,insurance number,insurance member,beneficiary number,hospital number,chart number,\
         medicare number,medicaid number,health number,insurance policy,health id,health insurance number,healthcare number,\
         group number,health card number,insurance card,hicn,m r n,health record number,healthcare id,medical id",
    ),
    (
        Cue::Vehicle,
        "license plate,licence plate,number plate,plate,plates,plate number,registration,registration number,vin,vehicle,tag number,\
         v i n,vehicle identification number,car registration,reg,reg number,registration plate,vin number,chassis number",
    ),
    (Cue::Zip, "zip,zip code,zipcode,postcode,post code,postal code"),
    (Cue::Birth, "born,date of birth,birth date,birthdate,birthday,dob,d o b,birth,d.o.b,b-day,bday,born on,born in"),
    (Cue::Email, "email,e-mail,mail,email address,e mail,gmail,email's,inbox"),
    (
        Cue::Username,
        "username,user name,user id,userid,handle,screen name,login,login name,login id,gamertag,gamer tag,instagram,twitter,tiktok,\
         snapchat,discord,skype id,skype,github,account name,nickname,reddit,user,log in as,logged in as,sign in as,logs in as,\
         signed in as,telegram handle,twitch",
    ),
    (Cue::Url, "website,web site,url,webpage,web page,homepage,home page,link,site,blog,portfolio,profile"),
    (Cue::Ip, "ip,ip address,i p address,i p,server address,host"),
    (
        Cue::Address,
        "address,live at,lives at,living at,reside at,resides at,located at,ship to,deliver to,delivered to,mail to,send it to,\
         moved to,shipping address,billing address,home address,house number,stay at,staying at,mailing address,street address,\
         ship it to,deliver it to,residing at,shipped to,sent to",
    ),
    (
        Cue::Harmless,
        "order number,flight,gate,room,page,chapter,bus,train,version,episode,season,ticket number,invoice,model,\
         platform,highway,route,channel,item number,part number,serial number,tracking number,lot number,isbn,exit,section,verse,\
         question,level,line number,order,ticket,issue number,isbn number,barcode,bar code,ean,gtin,upc,product code,build,sku,seat,row,size,article,error code,\
         status code,area code,country code,dress code,source code,zip file,building code,promo code,discount code,coupon code",
    ),
];

/// A phrase at its place.
#[derive(Clone, Debug)]
pub struct Cued {
    /// The words of the phrase.
    pub words: Range<usize>,
    /// The thing that it announces.
    pub cue: Cue,
}

type Table = HashMap<String, Vec<(Vec<String>, Cue)>>;

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let mut table = Table::new();
    for (cue, phrases) in CUES {
        for phrase in phrases.split(',') {
            // Readings have no `'s`.
            let mut words = phrase.split_whitespace().map(|word| word.strip_suffix("'s").unwrap_or(word).to_owned());
            if let Some(first) = words.next() {
                table.entry(first).or_default().push((words.collect(), *cue));
            }
        }
    }
    for phrases in table.values_mut() {
        phrases.sort_by_key(|(rest, _)| std::cmp::Reverse(rest.len()));
    }
    table
});

/// All cues of a text, in order; of those that begin with the same word the longest.
pub fn find(reading: &Reading<'_>) -> Vec<Cued> {
    let mut found: Vec<Cued> = Vec::new();
    let mut at = 0;
    while at < reading.tokens.len() {
        let token = &reading.tokens[at];
        // Not cards of a game, and not names of documents: "the card was lovely" has no number anyway.
        let Some(phrases) = (!token.masked).then(|| TABLE.get(token.lower.as_str())).flatten() else {
            at += 1;
            continue;
        };
        let longest = phrases.iter().find(|(rest, _)| {
            rest.iter().enumerate().all(|(offset, word)| {
                reading.lower(at + 1 + offset) == word && reading.tokens[at + offset].after == Break::None
            })
        });
        match longest {
            Some((rest, cue)) => {
                found.push(Cued { words: at..at + 1 + rest.len(), cue: *cue });
                at += 1 + rest.len();
            }
            None => at += 1,
        }
    }
    found
}

/// The nearest cue before a word: at most `most` words away, with at most one end of a sentence between, or none if `within`.
pub fn before<'c>(
    reading: &Reading<'_>,
    cues: &'c [Cued],
    at: usize,
    most: usize,
    accept: impl Fn(Cue) -> bool,
) -> Option<&'c Cued> {
    let upto = cues.partition_point(|cued| cued.words.end <= at);
    cues[..upto]
        .iter()
        .rev()
        .take_while(|cued| at - cued.words.end <= most)
        .find(|cued| accept(cued.cue) && reading.tokens[at].sentence - reading.tokens[cued.words.end - 1].sentence <= 1)
}

/// True if a word is part of a cue.
pub fn holds(cues: &[Cued], at: usize) -> bool {
    let ended = cues.partition_point(|cued| cued.words.end <= at);
    cues.get(ended).is_some_and(|cued| cued.words.contains(&at))
}

/// A cue shortly after a word, in its sentence: "is my pin".
pub fn after<'c>(
    reading: &Reading<'_>,
    cues: &'c [Cued],
    end: usize,
    most: usize,
    accept: impl Fn(Cue) -> bool,
) -> Option<&'c Cued> {
    let from = cues.partition_point(|cued| cued.words.start < end);
    let linked = matches!(reading.lower(end), "is" | "was" | "as" | "for")
        || (reading.lower(end) == "down" && reading.lower(end + 1) == "as");
    cues[from..].iter().take_while(|cued| cued.words.start - end <= most).find(|cued| {
        linked && accept(cued.cue) && reading.tokens[cued.words.start].sentence == reading.tokens[end - 1].sentence
    })
}
