"""An SMTP server on this machine that prints each letter it takes as a line of JSON.

Addresses that begin with `refused` get 550, those that begin with `later` 451 at the first attempt. With a certificate it takes
mail after STARTTLS and the password alone.
"""

import argparse
import json
import ssl
import sys
from email import message_from_bytes, policy

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

PASSWORD = b"the mail password"


class Handler:
    def __init__(self):
        self.seen = set()

    async def handle_RCPT(self, server, session, envelope, address, options):
        if address.startswith("refused"):
            return "550 5.1.1 no such mailbox <b>here</b>"
        if address.startswith("later") and address not in self.seen:
            self.seen.add(address)
            return "451 4.7.1 try again later"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        message = message_from_bytes(envelope.original_content, policy=policy.default)
        letter = {
            "to": envelope.rcpt_tos,
            "header_to": str(message["To"]),
            "from": str(message["From"]),
            "subject": str(message["Subject"]),
            "id": str(message["Message-ID"]),
            "automatic": str(message["Auto-Submitted"]),
            "type": message.get_content_type(),
            "body": message.get_content(),
            "tls": session.ssl is not None,
            "authenticated": bool(session.authenticated),
        }
        print(json.dumps(letter), flush=True)
        return "250 OK"


def authenticate(server, session, envelope, mechanism, data):
    return AuthResult(success=data.login == b"auricle" and data.password == PASSWORD, handled=False)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--port", type=int, required=True)
    arguments.add_argument("--certificate")
    arguments.add_argument("--key")
    arguments = arguments.parse_args()
    more = {}
    if arguments.certificate:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(arguments.certificate, arguments.key)
        more = {
            "tls_context": context,
            "require_starttls": True,
            "authenticator": authenticate,
            "auth_required": True,
            "auth_require_tls": True,
        }
    controller = Controller(Handler(), hostname="127.0.0.1", port=arguments.port, **more)
    controller.start()
    print("ready", flush=True)
    # Until the other side ends.
    sys.stdin.read()
    controller.stop()


if __name__ == "__main__":
    main()
