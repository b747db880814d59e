// The live tab: a session with a token, as any browser client has it.
const liveForm = find('[data-live]')

const LIVE_CODE = {
  curl: (api, options) => `# Your server mints a token; the browser opens the WebSocket with it.
curl -s ${api}/v2/realtime/token -H "Authorization: Bearer $AURICLE_KEY" \\
  --json ${shell(json(options))}
# Then send PCM16 to websocket_url?token=..., for instance with websocat:
# ffmpeg -i talk.mp3 -ac 1 -ar ${options.sample_rate} -f s16le - | websocat --binary "$url?token=$token"`,
  python: (api, options) => `# pip install requests websockets
import asyncio, json, os, requests, websockets

session = requests.post(${json(`${api}/v2/realtime/token`)}, json=${python(options)},
    headers={"Authorization": "Bearer " + os.environ["AURICLE_KEY"]}).json()

async def main():
    async with websockets.connect(f"{session['websocket_url']}?token={session['token']}") as socket:
        await socket.recv()  # ready
        async def send():
            with open("talk.pcm", "rb") as audio:  # PCM16, mono, ${options.sample_rate} Hz
                while part := audio.read(${Math.round(options.sample_rate / 10) * 2}):
                    await socket.send(part)
                    await asyncio.sleep(0.1)
            await socket.send('{"type":"stop"}')
        sending = asyncio.create_task(send())
        async for message in socket:
            frame = json.loads(message)
            if frame["type"] == "transcript" and frame["formatted"]:
                print(frame["text"])
        await sending

asyncio.run(main())`,
  javascript: (api, options) => `// On your server, with your key:
const session = await fetch(${json(`${api}/v2/realtime/token`)}, {
  method: 'POST',
  headers: { authorization: \`Bearer \${process.env.AURICLE_KEY}\`, 'content-type': 'application/json' },
  body: JSON.stringify(${json(options)}),
}).then(response => response.json())

// In the browser, with the token alone:
const socket = new WebSocket(\`\${session.websocket_url}?token=\${session.token}\`)
socket.onmessage = ({ data }) => {
  const frame = JSON.parse(data)
  if (frame.type === 'ready') sendMicrophone(socket) // PCM16, mono, ${options.sample_rate} Hz
  if (frame.type === 'transcript') console.log(frame.end_of_turn ? 'final' : 'partial', frame.text)
}
// At the end: socket.send('{"type":"stop"}')`,
  rust: (api, options) => `// reqwest with "blocking" and "json", serde_json, tungstenite
use serde_json::{Value, json};
use tungstenite::{Message, connect};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let minted: Value = reqwest::blocking::Client::new()
        .post(${json(`${api}/v2/realtime/token`)})
        .bearer_auth(std::env::var("AURICLE_KEY")?)
        .json(&json!(${json(options)}))
        .send()?
        .json()?;
    let (url, token) = (minted["websocket_url"].as_str(), minted["token"].as_str());
    let (mut socket, _) = connect(format!("{}?token={}", url.unwrap_or_default(), token.unwrap_or_default()))?;
    socket.read()?; // ready
    // PCM16, mono, ${options.sample_rate} Hz
    for part in std::fs::read("talk.pcm")?.chunks(${Math.round(options.sample_rate / 10) * 2}) {
        socket.send(Message::binary(part.to_vec()))?;
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    socket.send(Message::text(r#"{"type":"stop"}"#))?;
    while let Ok(message) = socket.read() {
        let Ok(frame) = serde_json::from_str::<Value>(message.to_text()?) else { continue };
        if frame["formatted"] == true {
            println!("{}", frame["text"].as_str().unwrap_or_default());
        }
    }
    Ok(())
}`,
}

if (liveForm) {
  followModel(liveForm)
  const controls = captureControls(liveForm)
  const turns = find('[data-turns]')
  const partial = find('[data-partial]')
  let running

  const optionsOfLive = () => {
    const options = { model: liveForm.elements.model.value, sample_rate: running?.microphone?.rate ?? 16000 }
    if (liveForm.elements.language_code.value) options.language_code = liveForm.elements.language_code.value
    return options
  }
  const updateCode = showCode(liveForm, LIVE_CODE, () => [liveForm.dataset.api, optionsOfLive()])

  function show(text) {
    partial.textContent = text
    find('[data-nothing]').hidden = true
  }

  function heard(session, frame) {
    if (frame.words.length) {
      // The time from the end of the last word in the audio to now.
      const behind = performance.now() - session.began - frame.words.at(-1).end
      if (behind > 0 && !frame.formatted) find('[data-latency]').textContent = `${words.live_latency} ${Math.round(behind)} ${words.milliseconds}`
    }
    if (!frame.end_of_turn) return show(frame.text)
    show('')
    if (frame.formatted && session.raw) session.raw.textContent = frame.text
    else {
      session.raw = make('p', frame.text)
      turns.append(session.raw)
    }
    if (frame.formatted) session.raw = null
    turns.scrollTop = turns.scrollHeight
  }

  function end(session, text) {
    if (running !== session) return
    running = null
    session.microphone?.close()
    if (session.socket && session.socket.readyState <= 1) session.socket.close(1000)
    // What was not finished is not lost.
    if (partial.textContent) turns.append(make('p', partial.textContent))
    show('')
    controls.end(text)
  }

  function stop(session) {
    controls.ending()
    session.stopping = true
    session.microphone?.mute()
    if (session.socket?.readyState === 1) session.socket.send('{"type":"stop"}')
    else end(session, words.live_ended)
  }

  async function start() {
    const session = running = {}
    controls.begin(words.live_stop)
    try {
      const microphone = await openMicrophone(liveForm, () => {
        if (running === session && !session.stopping) { stop(session); toast(words.live_unplugged) }
      })
      if (running !== session) return microphone.close()
      session.microphone = microphone
      controls.listDevices()
      controls.say(words.live_connecting)
      updateCode()
      const minted = await ask('/data/realtime/token', optionsOfLive())
      if (running === session) connect(session, minted)
    } catch (error) {
      end(session, error.message)
    }
  }

  function connect(session, minted) {
    const url = new URL(minted.websocket_url)
    url.searchParams.set('token', minted.token)
    const socket = session.socket = new WebSocket(url)
    socket.onmessage = ({ data }) => {
      const frame = JSON.parse(data)
      if (frame.type === 'ready') {
        session.began = performance.now()
        controls.startClock()
        controls.say(words.live_speak)
        session.microphone.listen(controls.level, pcm => { if (socket.readyState === 1) socket.send(pcm) })
      }
      if (frame.type === 'transcript') heard(session, frame)
      if (frame.type === 'error' || frame.type === 'reconnect') session.said = frame.message
      if (frame.type === 'done') session.done = true
    }
    socket.onclose = ({ reason }) => {
      end(session, session.done ? words.live_ended : session.said || reason || words.live_lost)
    }
  }

  controls.button.addEventListener('click', () => { if (running) stop(running); else start() })
}
