"""Fills an account of a data folder with transcripts of random words, for measurements of lists and searches.

    python3 benches/many_transcripts.py FOLDER EMAIL [COUNT [WORDS]]

The service must not run. It indexes the transcripts when it starts. Words follow Zipf's law: word `w1` is in every transcript, and each
transcript has a word of its own, `only` and its number.
"""

import bisect
import itertools
import json
import random
import sqlite3
import sys
import time

VOCABULARY = 20_000
DAY_MS = 86_400_000


def main():
    folder, email = sys.argv[1:3]
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 50_000
    length = int(sys.argv[4]) if len(sys.argv) > 4 else 300
    draw = random.Random(1)
    sums = list(itertools.accumulate(1 / rank for rank in range(1, VOCABULARY + 1)))
    database = sqlite3.connect(f"{folder}/auricle.db")
    (account,) = database.execute("SELECT id FROM accounts WHERE email = ?", (email,)).fetchone()
    now = int(time.time() * 1000)
    for number in range(count):
        words, at = [], 0
        for place in range(length):
            word = f"w{bisect.bisect(sums, draw.random() * sums[-1]) + 1}"
            if place == length // 2:
                word = f"only{number}"
            end = at + 300
            words.append({"text": word + ("." if place % 12 == 11 else ""), "start": at, "end": end, "confidence": 0.9})
            at = end + 50
        text = " ".join(word["text"] for word in words)
        title = f"Recording {number:05}.wav"
        created = now - (count - number) * (90 * DAY_MS // count)
        database.execute(
            "INSERT INTO transcripts (id, account_id, status, model, title, title_key, language_code, audio_url, options, created_at,"
            " completed_at, duration_ms, progress_ms, text, words, confidence)"
            " VALUES (?, ?, 'completed', ?, ?, ?, ?, 'https://example.com/a.wav', '{}', ?, ?, ?, ?, ?, ?, 0.9)",
            (f"tr_{number:032}", account, draw.choice(["svc-best", "svc-fast"]), title, title.lower(),
             draw.choice(["en", "de", "fr"]), created, created + 1000, at, at, text, json.dumps(words)),
        )
        if number % 1000 == 999:
            database.commit()
    database.commit()


main()
