"""Writes labelled sentences with invented personal data, as written and as heard, and harmless sentences.

Usage: generate.py [SEED] > sentences.jsonl

A line has text, form (written, spoken, harmless) and spans: start, end (characters) and label. The sentences and the values
stand here alone; the finders were not written from them.
"""

import json
import random
import re
import sys

GIVEN = """Aarav Abena Adaeze Agnieszka Ahmed Aiko Alejandra Amara Amina Anders Anika Anneliese Antoine Ayesha Beatriz Bjorn Blessing
Brenda Brigitte Camila Carlos Catherine Chidi Chloe Cristina Darnell Deepak Diego Dimitri Ebony Eduardo Eleanor Elif Emeka Emily
Esperanza Fatima Felipe Fiona Francesca Gareth Giovanni Gretchen Guadalupe Hamza Hannah Haruto Heather Hiroshi Ifeoma Imani Ines
Ingrid Isabella Ivan Jamal Javier Jennifer Joanna Jorge Kareem Karen Katarzyna Kenji Khadija Kwame Lakshmi Lars Latoya Leila Liam
Linh Lucia Magdalena Mahmoud Malik Marcus Margaret Mariana Mateusz Mei Mohammed Monique Nadia Naomi Natalia Ngozi Nikolai Olga
Oluwaseun Omar Patricia Pedro Priscilla Rajesh Rebecca Ricardo Rosalind Samantha Sanjay Santiago Sakura Siobhan Soren Stella
Svetlana Tamika Tanvi Thandiwe Theodore Tomasz Umar Valentina Vikram Wanjiru Wei Xavier Yasmin Yuki Yusuf Zainab Zoe""".split()
FAMILY = """Abernathy Acosta Adeyemi Andersson Banerjee Barlow Bianchi Boateng Calloway Castellanos Chatterjee Chukwu Coleman Contreras
Dasgupta Delgado Diallo Dubois Eriksson Fernandes Fitzgerald Gallagher Garcia Goldstein Gupta Hashimoto Hernandez Hoffmann Ibrahim
Iyer Jankowski Johansson Kaczmarek Kamau Kapoor Kim Kowalczyk Krishnan Lindqvist Lopez MacDonald Mahlangu Mbeki Mendoza Moreau Mukherjee
Müller Nakamura Nguyen Nowak O'Brien Obafemi Ochoa Okonkwo Olsen Osei Park Patel Pereira Petrov Popov Qureshi Ramirez Rasmussen
Reddy Rosenberg Rossi Sandoval Santos Schneider Sharma Sinclair Silva Stavros Suzuki Takahashi Tanaka Thompson Tran Vasquez Venkatesan
Villanueva Volkov Walsh Washington Whitfield Williams Yamamoto Yilmaz Zhang Zielinski""".split()
TOWNS = ["Springfield", "Leeds", "Bristol", "Milwaukee", "Tucson", "Lagos", "Pune", "Krakow", "Seville", "Toronto", "Adelaide", "Nairobi",
         "Tacoma", "Glasgow", "Sacramento", "Birmingham", "Osaka", "Fresno", "Boise", "Cardiff", "Hamburg", "Lyon", "Baltimore", "Omaha"]
STATES = ["Texas", "Ohio", "Oregon", "Florida", "Georgia", "Illinois", "Arizona", "Virginia", "Michigan", "Colorado"]
STREETS = ["Maple", "Lincoln", "Willow Creek", "Cedar", "Harrison", "King", "Prospect", "Elm", "Sunset", "Mill", "Orchard", "Church",
           "Magnolia", "Riverside", "Jefferson", "Park", "Victoria", "Highland"]
KINDS = ["Street", "Avenue", "Road", "Lane", "Drive", "Court", "Boulevard"]
HOSTS = ["gmail", "outlook", "fastmail", "northwind", "bluebird", "yahoo", "contoso", "riverbank", "icloud"]
JOBS = ["nurse", "software engineer", "plumber", "high school teacher", "dental hygienist", "truck driver", "paralegal", "pharmacist",
        "electrician", "social worker", "flight attendant", "architect"]
CONDITIONS = ["asthma", "type two diabetes", "epilepsy", "high blood pressure", "multiple sclerosis", "depression", "crohn's disease",
              "breast cancer", "rheumatoid arthritis", "glaucoma"]
DRUGS = ["metformin", "sertraline", "lisinopril", "atorvastatin", "warfarin", "gabapentin", "amoxicillin", "levothyroxine"]
NATIONS = ["Brazilian", "Nigerian", "Canadian", "Polish", "Vietnamese", "Irish", "Kenyan", "Turkish"]
FAITHS = ["Catholic", "Muslim", "Hindu", "Jewish", "Buddhist", "Baptist"]
MONTHS = "January February March April May June July August September October November December".split()
SECRETS = ["Tiger42moon", "sunflower77", "Kx9!mango", "blueRiver2019", "purple-monkey-8", "qwerty123!", "M0untain$"]
SPOKEN_SECRETS = ["tiger forty two moon", "sunflower seven seven", "capital k mango nine", "blue river twenty nineteen", "purple monkey eight"]

ONES = "zero one two three four five six seven eight nine".split()
TEENS = "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
TENS = "_ _ twenty thirty forty fifty sixty seventy eighty ninety".split()
ORDINALS = ("first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth sixteenth "
            "seventeenth eighteenth nineteenth twentieth").split()


def two(number):
    if number < 10:
        return ONES[number]
    if number < 20:
        return TEENS[number - 10]
    return TENS[number // 10] + ("" if number % 10 == 0 else f" {ONES[number % 10]}")


def year_heard(year):
    if 2000 <= year < 2010:
        return "two thousand" + ("" if year == 2000 else f" {ONES[year - 2000]}")
    low = year % 100
    return f"{two(year // 100)} {'oh ' + ONES[low] if 0 < low < 10 else 'hundred' if low == 0 else two(low)}"


def ordinal(day):
    if day <= 20:
        return ORDINALS[day - 1]
    return {30: "thirtieth"}.get(day) or f"{TENS[day // 10]} {ORDINALS[day % 10 - 1]}"


def digits_heard(rng, text, pairs=False):
    """Digits as people say them: one by one, with "oh" and "double", or in pairs."""
    out, at = [], 0
    style = rng.random()
    while at < len(text):
        if text[at] == " ":
            at += 1
            continue
        if text[at].isalpha():
            out.append(text[at].lower())
            at += 1
            continue
        if style < 0.2 and text[at:at + 2] == text[at] * 2:
            out.append(f"double {'oh' if text[at] == '0' else ONES[int(text[at])]}")
            at += 2
            continue
        pair = text[at:at + 2]
        if pairs and style > 0.7 and len(pair) == 2 and pair.isdigit() and pair[0] != "0":
            out.append(two(int(pair)))
            at += 2
            continue
        out.append("oh" if text[at] == "0" and style < 0.5 else ONES[int(text[at])])
        at += 1
    return " ".join(out)


def luhn(rng, prefix, length):
    body = prefix + "".join(rng.choice("0123456789") for _ in range(length - len(prefix) - 1))
    total = 0
    for at, digit in enumerate(reversed(body)):
        value = int(digit) * (2 if at % 2 == 0 else 1)
        total += value - 9 if value > 9 else value
    return body + str(-total % 10)


def iban(rng):
    bank = "".join(rng.choice("0123456789") for _ in range(18))
    check = 98 - int(bank + "131400") % 97
    return f"DE{check:02d}{bank}"


def value(rng, kind):
    """A value: as written, as heard."""
    digits = lambda count: "".join(rng.choice("0123456789") for _ in range(count))
    letters = lambda count: "".join(rng.choice("ABCDEFGHJKLMNPRSTUVWXYZ") for _ in range(count))
    if kind == "PERSON_NAME":
        form = rng.random()
        given, family = rng.choice(GIVEN), rng.choice(FAMILY)
        name = f"{given} {family}" if form < 0.75 else given
        return name, name.lower()
    if kind == "FULL":
        name = f"{rng.choice(GIVEN)} {rng.choice(FAMILY)}"
        return name, name.lower()
    if kind == "FAMILY":
        name = rng.choice(FAMILY)
        return name, name.lower()
    if kind == "PHONE_NUMBER":
        area, mid, last = rng.choice(["415", "212", "303", "512", "617", "702", "206"]), "555", "01" + digits(2)
        if rng.random() < 0.6:
            mid = rng.choice("23456789") + digits(2)
            last = digits(4)
        written = rng.choice([f"({area}) {mid}-{last}", f"{area}-{mid}-{last}", f"{area}.{mid}.{last}", f"+1 {area} {mid} {last}",
                              f"{area} {mid} {last}", f"+44 20 7946 0{digits(3)}", f"07700 900{digits(3)}"])
        plain = re.sub(r"\D", "", written)
        heard = digits_heard(rng, plain, pairs=True)
        return written, ("plus " + heard if written.startswith("+") else heard)
    if kind == "EMAIL_ADDRESS":
        given, family, host = rng.choice(GIVEN).lower(), re.sub(r"\W", "", rng.choice(FAMILY).lower()), rng.choice(HOSTS)
        end = rng.choice(["com", "org", "net", "co.uk"])
        number = digits(2)
        form = rng.randrange(4)
        local = [f"{given}.{family}", f"{given}{number}", f"{given}_{family}", f"{given[0]}{family}"][form]
        heard = [f"{given} dot {family}", f"{given} {digits_heard(rng, number)}", f"{given} underscore {family}", f"{given[0]} {family}"][form]
        return f"{local}@{host}.{end}", f"{heard} at {host} dot {end.replace('.', ' dot ')}"
    if kind == "CREDIT_CARD_NUMBER":
        number = luhn(rng, rng.choice(["4", "51", "37"]), 16)
        number = luhn(rng, "4", 16) if rng.random() < 0.7 else number
        return rng.choice([re.sub(r"(....)(?=.)", r"\1 ", number), number, re.sub(r"(....)(?=.)", r"\1-", number)]), digits_heard(rng, number, pairs=True)
    if kind == "CREDIT_CARD_CVV":
        number = digits(3)
        return number, digits_heard(rng, number)
    if kind == "CREDIT_CARD_EXPIRATION":
        month, year = rng.randint(1, 12), rng.randint(26, 33)
        return f"{month:02d}/{year}", rng.choice([f"{MONTHS[month - 1].lower()} twenty {two(year)}", f"{'oh ' if month < 10 else ''}{two(month)} slash {two(year)}"])
    if kind == "US_SOCIAL_SECURITY_NUMBER":
        number = f"{rng.randint(100, 665)}{rng.randint(10, 99)}{rng.randint(1000, 9999)}"
        return f"{number[:3]}-{number[3:5]}-{number[5:]}", digits_heard(rng, number, pairs=True)
    if kind == "BANKING_INFORMATION":
        number = iban(rng)
        return rng.choice([number, re.sub(r"(....)(?=.)", r"\1 ", number)]), digits_heard(rng, number)
    if kind == "ROUTING":
        number = digits(9)
        return number, digits_heard(rng, number)
    if kind == "ACCOUNT_NUMBER":
        number = digits(rng.choice([8, 10, 12]))
        return number, digits_heard(rng, number, pairs=True)
    if kind == "PASSPORT_NUMBER":
        number = rng.choice([digits(9), letters(1) + digits(8), letters(2) + digits(7)])
        return number, digits_heard(rng, number)
    if kind == "DRIVERS_LICENSE":
        number = letters(1) + digits(rng.choice([7, 8, 12]))
        return number, digits_heard(rng, number)
    if kind == "HEALTHCARE_NUMBER":
        number = rng.choice([digits(10), letters(3) + digits(9)])
        return number, digits_heard(rng, number)
    if kind == "VEHICLE_ID":
        number = rng.choice([f"{letters(3)} {digits(4)}", f"{digits(1)}{letters(3)}{digits(3)}", f"{letters(2)}{digits(2)} {letters(3)}"])
        return number, digits_heard(rng, number)
    if kind == "PASSWORD":
        at = rng.randrange(len(SPOKEN_SECRETS))
        return rng.choice(SECRETS), SPOKEN_SECRETS[at]
    if kind == "PIN":
        number = digits(4)
        return number, digits_heard(rng, number)
    if kind == "USERNAME":
        given, number = rng.choice(GIVEN).lower(), digits(2)
        return rng.choice([f"{given}_{number}", f"{given}{number}"]), f"{given} underscore {digits_heard(rng, number)}"
    if kind == "IP_ADDRESS":
        parts = [str(rng.randint(1, 254)) for _ in range(4)]
        return ".".join(parts), " dot ".join(digits_heard(rng, part) for part in parts)
    if kind == "URL":
        given = rng.choice(GIVEN).lower()
        host = rng.choice(HOSTS)
        return f"https://www.{host}.com/{given}", f"www dot {host} dot com slash {given}"
    if kind == "DATE_OF_BIRTH":
        day, month, year = rng.randint(1, 28), rng.randint(1, 12), rng.randint(1940, 2009)
        written = rng.choice([f"{MONTHS[month - 1]} {day}, {year}", f"{day} {MONTHS[month - 1]} {year}", f"{month:02d}/{day:02d}/{year}", f"{year}-{month:02d}-{day:02d}"])
        name = MONTHS[month - 1].lower()
        return written, rng.choice([f"{name} {ordinal(day)} {year_heard(year)}", f"the {ordinal(day)} of {name} {year_heard(year)}", f"{name} {two(day)} {year_heard(year)}"])
    if kind == "PERSON_AGE":
        age = rng.randint(19, 88)
        return str(age), two(age)
    if kind == "ADDRESS":
        number = rng.randint(1, 1999)
        street, sort = rng.choice(STREETS), rng.choice(KINDS)
        heard = two(number) if number < 100 else digits_heard(rng, str(number), pairs=True)
        written, heard = f"{number} {street} {sort}", f"{heard} {street} {sort}".lower()
        if rng.random() < 0.5:
            town, state, code = rng.choice(TOWNS[:5]), rng.choice(STATES), digits(5)
            return f"{written}, {town}, {state} {code}", f"{heard} {town} {state} {digits_heard(rng, code)}".lower()
        return written, heard
    if kind == "TOWN":
        town = rng.choice(TOWNS)
        return town, town.lower()
    if kind == "ZIP":
        number = digits(5)
        return number, digits_heard(rng, number)
    table = {"OCCUPATION": JOBS, "MEDICAL_CONDITION": CONDITIONS, "DRUG": DRUGS, "NATIONALITY": NATIONS, "RELIGION": FAITHS}
    text = rng.choice(table[kind])
    return text, text.lower()


TEMPLATES = """
Good morning, you're through to {FULL}, how can I help?
Could you transfer me to {FULL} in claims?
The tenant, {FULL}, hasn't paid since March.
I had lunch with {PERSON_NAME} and we talked about the merger.
Please let {PERSON_NAME} know that the parcel has arrived.
My daughter {PERSON_NAME} starts school on Monday.
It was {FULL} who signed the contract.
Hi {PERSON_NAME}, thanks for getting back to me so quickly.
{FULL} will join the call at noon.
The report was prepared by {FULL} last week.
Mrs. {FAMILY} said the window was already broken.
We interviewed {FULL} and {FULL} for the position.
My supervisor is {FULL}.
You can put it under the name {FULL}.
Her maiden name was {FAMILY}.
You can get hold of me on {PHONE_NUMBER} after six.
If we get cut off, ring {PHONE_NUMBER}.
His new mobile is {PHONE_NUMBER}, the old one is dead.
Put {PHONE_NUMBER} down as the emergency contact.
Leave a voicemail at {PHONE_NUMBER}.
Send the receipt over to {EMAIL_ADDRESS} please.
I never got it, are you sure you used {EMAIL_ADDRESS}?
Her work email is {EMAIL_ADDRESS}.
Just write to {EMAIL_ADDRESS} and attach the form.
The card I want to use is {CREDIT_CARD_NUMBER}.
Okay, it's a Visa, {CREDIT_CARD_NUMBER}.
Charge it to {CREDIT_CARD_NUMBER}, expiring {CREDIT_CARD_EXPIRATION}.
The three digits on the back are {CREDIT_CARD_CVV}.
And the security code is {CREDIT_CARD_CVV}.
It expires {CREDIT_CARD_EXPIRATION}.
My social is {US_SOCIAL_SECURITY_NUMBER}.
The social security number on file reads {US_SOCIAL_SECURITY_NUMBER}, is that right?
Wire the deposit to {BANKING_INFORMATION}.
Our IBAN is {BANKING_INFORMATION}.
The routing number is {ROUTING} and the account number is {ACCOUNT_NUMBER}.
I'm looking at account {ACCOUNT_NUMBER} and the balance is wrong.
My membership number is {ACCOUNT_NUMBER}.
The policy number starts with a zero, it's {ACCOUNT_NUMBER}.
Her passport number is {PASSPORT_NUMBER}.
I need your passport, please. Sure, {PASSPORT_NUMBER}.
My driver's license number is {DRIVERS_LICENSE}.
The patient's Medicare number is {HEALTHCARE_NUMBER}.
His medical record number is {HEALTHCARE_NUMBER}.
The car that hit me had the plate {VEHICLE_ID}.
Registration {VEHICLE_ID}, parked on the second floor.
The wifi password is {PASSWORD}.
I reset my password to {PASSWORD} yesterday.
My PIN is {PIN} and it does not work.
The door code is {PIN}.
Log in with the username {USERNAME}.
My user name is {USERNAME}.
The server's IP address is {IP_ADDRESS}.
I uploaded the pictures to {URL}.
I was born on {DATE_OF_BIRTH}.
Date of birth? {DATE_OF_BIRTH}.
Her birthday is {DATE_OF_BIRTH}.
I'm {PERSON_AGE} years old and I live alone.
My father is {PERSON_AGE} and still drives.
The patient is a {PERSON_AGE} year old woman.
I live at {ADDRESS}.
Please deliver it to {ADDRESS} before Friday.
The billing address is {ADDRESS}.
We moved to {TOWN} two years ago.
I'm calling from {TOWN}.
My zip code is {ZIP}.
I work as a {OCCUPATION} in a small firm.
She is a {OCCUPATION}.
I was diagnosed with {MEDICAL_CONDITION} in the spring.
My brother has {MEDICAL_CONDITION}.
I take {DRUG} every morning.
He was prescribed {DRUG} after the surgery.
I'm {NATIONALITY} but I grew up abroad.
My wife is {RELIGION}.
What's your name? {FULL}.
Who am I speaking with? This is {FULL}.
Can you spell your surname? It's {FAMILY}.
Can I take a number? Yes, it's {PHONE_NUMBER}.
And your email? That would be {EMAIL_ADDRESS}.
{FULL} lives at {ADDRESS} and can be reached on {PHONE_NUMBER}.
Name {FULL}, date of birth {DATE_OF_BIRTH}, phone {PHONE_NUMBER}.
""".strip().splitlines()

HARMLESS = """
The meeting starts at nine thirty and lasts two hours.
Please turn to page 214 and read the third paragraph.
Our revenue grew by 12 percent in the last quarter.
I think the new phone is too expensive at 999 dollars.
The train to platform 9 leaves in 15 minutes.
She will be here in a minute, so please take a seat.
The order number is 48210 and it ships tomorrow.
We need three more chairs and a larger table.
Can you send me the slides before the presentation?
The weather will be mild with a chance of rain in the evening.
It took us forty five minutes to find a parking space.
The recipe needs two cups of flour and a pinch of salt.
He scored twenty two points in the second half.
Mark the box if you agree with the terms.
I will bill you at the end of the month.
May I ask what this is about?
The rose bushes need water in the summer.
There is no hope of finishing this today.
We had a grand time at the art museum.
The password must have at least eight characters.
Never share your PIN with anyone.
Your account will be charged automatically.
The doctor will see you now.
A nurse took my temperature.
Italian food is my favorite.
The flight was delayed by an hour.
Paris is lovely in the spring.
The company was founded in 1998 and has 300 employees.
Version 2.4.1 fixes the crash on startup.
The speed limit on this road is thirty five.
Call back later if the line is busy.
The email never arrived, so I sent it again.
Our address book is out of date.
The street was empty after the parade.
I would like to speak to a manager, please.
The song reached number one in twelve countries.
Add the milk, then stir for five minutes.
The building is ninety years old.
We are open Monday to Friday from eight to five.
Diabetes is a common disease in many countries.
The average age of the fleet is eleven years.
Press one for sales or two for support.
The temperature dropped to minus five overnight.
It cost me fifty euros and a whole afternoon.
The river is the longest in the country.
Please hold while I look that up for you.
The next election is in two years.
The laptop has sixteen gigabytes of memory.
I agree with everything you said.
The cat sat on the warm windowsill all day.
Could you repeat the last part, please?
The package weighs four point two kilograms.
In 2019 the law was changed twice.
My favorite season is autumn.
You can download the form from our website.
Chapter seven explains the method in detail.
He drove two hundred miles without a break.
This is a test of the emergency system.
The bank closes at four on Fridays.
Let us know what you think of the idea.
The card game lasted until midnight.
I am not sure that I understand the question.
We are happy to help you with that.
The invoice is due in thirty days.
There were about five hundred people at the concert.
It's going to be a long day for all of us.
The serial number is printed on the bottom of the device.
Room 1204 is on the twelfth floor.
Are you still looking for a new apartment?
My phone died while I was on the train.
The bus 42 stops right in front of the school.
Prices went up by three percent in January.
Would you prefer tea or coffee?
The judge said the case was closed.
Thanks so much for your patience today.
I'm calling about the broken dishwasher.
This is exactly what I was looking for.
The population is just over two million.
Please confirm the appointment for the 14th of June at ten.
The king opened the new bridge on Sunday.
""".strip().splitlines()

HEARD_NUMBERS = re.compile(r"\d[\d.,]*")


def heard_text(text):
    """Harmless text as heard: no capitals, no punctuation, numbers as words."""
    def say(match):
        number = match.group().rstrip(".,")
        return " point ".join(say_number(int(part)) for part in number.split("."))
    text = re.sub(r"(\d+)(?:st|nd|rd|th)\b", lambda match: ordinal(int(match.group(1))), text)
    return re.sub(r"[.,?!]", "", HEARD_NUMBERS.sub(say, text)).lower()


def say_number(number):
    if number < 100:
        return two(number)
    if 1900 <= number < 2100:
        return year_heard(number)
    if number < 1000:
        return f"{ONES[number // 100]} hundred" + (f" and {two(number % 100)}" if number % 100 else "")
    return " ".join(ONES[int(digit)] for digit in str(number))


LABELS = {"FULL": "PERSON_NAME", "FAMILY": "PERSON_NAME", "ROUTING": "BANKING_INFORMATION", "PIN": "PASSWORD", "ADDRESS": "LOCATION",
          "TOWN": "LOCATION", "ZIP": "LOCATION"}


def fill(rng, template, form):
    text, spans = "", []
    for part in re.split(r"(\{\w+\})", template):
        if not part.startswith("{"):
            text += re.sub(r"[.,?!]", "", part).lower() if form == "bare" else part
            continue
        kind = part[1:-1]
        written, heard = value(rng, kind)
        shown = written if form == "written" else heard
        if form == "spoken" and kind in ("FULL", "FAMILY", "PERSON_NAME", "TOWN", "NATIONALITY", "RELIGION"):
            shown = written
        spans.append({"start": len(text), "end": len(text) + len(shown), "label": LABELS.get(kind, kind)})
        text += shown
    return {"text": text, "form": "written" if form == "written" else "spoken", "spans": spans}


def main(seed=7):
    rng = random.Random(int(seed))
    lines = []
    for template in TEMPLATES:
        for form in ["written"] * 4 + ["spoken", "spoken", "bare", "bare"]:
            lines.append(fill(rng, template, form))
    for text in HARMLESS:
        lines.append({"text": text, "form": "harmless", "spans": []})
        lines.append({"text": heard_text(text), "form": "harmless", "spans": []})
    for line in lines:
        print(json.dumps(line, ensure_ascii=False))


main(*sys.argv[1:])
