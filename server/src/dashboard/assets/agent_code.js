// The code that the voice agent's tab shows.
const AGENT_RATE = 24000

const AGENT_CODE = {
  curl: (api, settings) => `# Your server mints a token; the browser opens the WebSocket with it.
minted=$(curl -s ${api}/v2/voice-agent/token -H "Authorization: Bearer $AURICLE_KEY" --json '{}')
# Talk with websocat: PCM16 as base64, 100 ms a frame.
{
  echo ${shell(json({ type: 'session.update', session: settings }))}
  ffmpeg -loglevel error -re -i question.mp3 -ac 1 -ar ${AGENT_RATE} -f s16le - | base64 -w ${AGENT_RATE / 10 * 8 / 3} |
    jq -Rc --unbuffered '{type: "input.audio", audio: .}'
  sleep 15
  echo '{"type":"session.end"}'
} | websocat "$(jq -r '"\\(.websocket_url)?token=\\(.token)"' <<<"$minted")" |
  jq -c 'select(.type != "reply.audio")'`,
  python: (api, settings, result) => `# pip install requests websockets
import asyncio, base64, json, os, requests, websockets

minted = requests.post(${json(`${api}/v2/voice-agent/token`)}, json={},
    headers={"Authorization": "Bearer " + os.environ["AURICLE_KEY"]}).json()
settings = ${python(settings)}

def call_tool(name, arguments):
    return ${python(result)}

async def main():
    async with websockets.connect(f"{minted['websocket_url']}?token={minted['token']}") as socket:
        async def send(**frame):
            await socket.send(json.dumps(frame))
        async def speak():
            with open("question.pcm", "rb") as audio:  # PCM16, mono, ${AGENT_RATE} Hz
                while part := audio.read(${AGENT_RATE / 5}):
                    await send(type="input.audio", audio=base64.b64encode(part).decode())
                    await asyncio.sleep(0.1)
            await asyncio.sleep(15)
            await send(type="session.end")
        await send(type="session.update", session=settings)
        with open("replies.pcm", "wb") as replies:
            async for message in socket:
                frame = json.loads(message)
                match frame["type"]:
                    case "session.ready":
                        speaking = asyncio.create_task(speak())
                    case "reply.audio":
                        replies.write(base64.b64decode(frame["data"]))
                    case "tool.call":
                        answer = call_tool(frame["name"], frame["arguments"])
                        await send(type="tool.result", call_id=frame["call_id"], result=json.dumps(answer))
                    case "transcript.user" | "transcript.agent":
                        print(frame["type"].removeprefix("transcript."), frame["text"])
                    case "session.error":
                        print(frame["message"])

asyncio.run(main())`,
  javascript: (api, settings, result) => `// On your server, with your key:
const minted = await fetch(${json(`${api}/v2/voice-agent/token`)}, {
  method: 'POST',
  headers: { authorization: \`Bearer \${process.env.AURICLE_KEY}\` },
}).then(response => response.json())

// In the browser, with the token alone:
const callTool = (name, args) => (${json(result, 2)})
const socket = new WebSocket(\`\${minted.websocket_url}?token=\${minted.token}\`)
const send = frame => socket.send(JSON.stringify(frame))
socket.onopen = () => send({ type: 'session.update', session: ${json(settings, 2)} })
socket.onmessage = ({ data }) => {
  const frame = JSON.parse(data)
  // PCM16, mono, ${AGENT_RATE} Hz, as base64: { type: 'input.audio', audio }
  if (frame.type === 'session.ready') sendMicrophone(send)
  if (frame.type === 'reply.audio') play(frame.data)
  if (frame.type === 'reply.done' && frame.status === 'interrupted') stopPlaying()
  if (frame.type === 'tool.call') {
    const result = JSON.stringify(callTool(frame.name, frame.arguments))
    send({ type: 'tool.result', call_id: frame.call_id, result })
  }
  if (frame.type === 'transcript.user' || frame.type === 'transcript.agent') console.log(frame.type, frame.text)
}
// At the end: send({ type: 'session.end' })`,
  rust: (api, settings, result) => `// reqwest with "blocking" and "json", serde_json, tungstenite, data-encoding
use data_encoding::BASE64;
use serde_json::{Value, json};
use tungstenite::{Message, connect};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let minted: Value = reqwest::blocking::Client::new()
        .post(${json(`${api}/v2/voice-agent/token`)})
        .bearer_auth(std::env::var("AURICLE_KEY")?)
        .json(&json!({}))
        .send()?
        .json()?;
    let (url, token) = (minted["websocket_url"].as_str(), minted["token"].as_str());
    let (mut socket, _) = connect(format!("{}?token={}", url.unwrap_or_default(), token.unwrap_or_default()))?;
    let frame = |frame: Value| Message::text(frame.to_string());
    let settings = json!(${json(settings)});
    socket.send(frame(json!({"type": "session.update", "session": settings})))?;
    // PCM16, mono, ${AGENT_RATE} Hz
    for part in std::fs::read("question.pcm")?.chunks(${AGENT_RATE / 5}) {
        socket.send(frame(json!({"type": "input.audio", "audio": BASE64.encode(part)})))?;
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let mut asked = false;
    while let Ok(message) = socket.read() {
        let Ok(heard) = serde_json::from_str::<Value>(message.to_text()?) else { continue };
        match heard["type"].as_str().unwrap_or_default() {
            "transcript.agent" => println!("agent: {}", heard["text"]),
            "transcript.user" => {
                asked = true;
                println!("user: {}", heard["text"]);
            }
            "tool.call" => {
                let result = json!(${json(result)}).to_string();
                socket.send(frame(json!({"type": "tool.result", "call_id": heard["call_id"], "result": result})))?;
            }
            "reply.done" if asked => socket.send(frame(json!({"type": "session.end"})))?,
            _ => {}
        }
    }
    Ok(())
}`,
}
