// A certified provider of OpenID Connect: the npm package oidc-provider, with its pages for development, which take any password.
//
// Usage: openid_provider.mjs PORT REDIRECT_URI [post], with the folder of the packages in AURICLE_NODE_MODULES. It prints "ready" and ends
// with its standard input. `post` takes the client's secret in the form alone.
//
// The name that somebody signs in with tells what is known of them: an email address, which is verified; after "unverified." one
// that is not; after "silent." one of which that is not said; after "other." the address of somebody else; and "nobody" has none.
// Its keys are new ones at each start.

import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { pathToFileURL } from 'node:url';

const [port, redirect, auth] = process.argv.slice(2);
const main = `${process.env.AURICLE_NODE_MODULES}/oidc-provider/lib/index.js`;
const { Provider } = await import(pathToFileURL(main));

const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
const key = { ...privateKey.export({ format: 'jwk' }), kid: randomBytes(8).toString('hex'), use: 'sig', alg: 'RS256' };

function claimsOf(id) {
  if (id === 'nobody') return { sub: id };
  const [, known, email] = /^(?:(unverified|silent|other)\.)?(.*)$/.exec(id);
  const claims = { sub: id, email };
  if (known !== 'silent') claims.email_verified = known !== 'unverified';
  return claims;
}

const method = auth === 'post' ? 'client_secret_post' : 'client_secret_basic';
const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [
    {
      client_id: 'auricle',
      client_secret: 'the secret of the client',
      redirect_uris: [redirect],
      token_endpoint_auth_method: method,
    },
  ],
  clientAuthMethods: [method],
  claims: { openid: ['sub'], email: ['email', 'email_verified'] },
  cookies: { keys: ['a key'] },
  features: { devInteractions: { enabled: true } },
  findAccount: (_, id) => ({ accountId: id, claims: () => claimsOf(id) }),
  jwks: { keys: [key] },
  pkce: { required: () => true },
});
provider.listen(Number(port), '127.0.0.1', () => process.stdout.write('ready\n'));
process.stdin.on('end', () => process.exit(0)).resume();
