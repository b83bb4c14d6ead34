// The picture of a live session and the answer that is being generated; sends the pictures of a webcam. The value is
// the session: its key, whether it uses the webcam, and the frames per second.

import { keepInWindow, readKept } from "../state/settings.js";

const NONE = "The picture of the source appears here.",
  STARTING = "Starting…";
const POLL_MS = 400,
  MAX_WIDTH = 640,
  JPEG_QUALITY = 0.85,
  PUSHES_PER_FRAME = 3;

const keepName = (name) => keepInWindow("recording", name); // while its session runs

export function mount({ element, props, server, watch }) {
  const [picture, camera, none, text] = [".live-picture", ".live-camera", ".live-none", ".live-text"].map((name) =>
    element.querySelector(name),
  );
  let current = null; // the key of the session that is shown
  let stream = null; // of the webcam

  const wait = (ms) =>
    new Promise((done) => {
      setTimeout(done, ms);
    });
  const isOver = (key) => current !== key || !element.isConnected;

  function closeCamera() {
    for (const track of stream?.getTracks() ?? []) track.stop();
    stream = camera.srcObject = null;
  }

  function end() {
    current = null;
    element.removeAttribute("data-session");
    keepName("");
    closeCamera();
    text.textContent = "";
    none.textContent = NONE;
    camera.hidden = true;
    none.hidden = !picture.hidden; // the last picture of another source stays
  }

  // Asks for the latest picture and text until the session is over.
  async function follow(key) {
    while (!isOver(key)) {
      const seen = await server.look({ key }).catch(() => undefined); // asked again
      if (isOver(key)) break;
      if (seen === null) return end();
      element.toggleAttribute("data-session", Boolean(seen)); // for before_gradio.js; one of a server that left is lost
      if (seen?.picture) {
        picture.src = `data:image/jpeg;base64,${seen.picture}`;
        picture.hidden = !(none.hidden = true);
      }
      if (seen?.recording) keepName(seen.recording);
      if (seen) [text.textContent, none.textContent] = [seen.text, seen.wait || STARTING];
      await wait(POLL_MS);
    }
    if (!element.isConnected) closeCamera();
  }

  // Opens the webcam, and sends its pictures until the session is over.
  async function send(key, fps) {
    try {
      stream = await navigator.mediaDevices.getUserMedia({ video: { width: { ideal: MAX_WIDTH } } });
    } catch (error) {
      await server.push({ key, problem: error?.name ?? "no camera" });
      return;
    }
    if (isOver(key)) return closeCamera();
    camera.srcObject = stream;
    camera.hidden = !(none.hidden = true);
    await camera.play();
    const canvas = document.createElement("canvas"),
      [track] = stream.getVideoTracks();
    while (!isOver(key)) {
      if (track.readyState === "ended") {
        // unplugged, or its permission withdrawn; the element keeps the last picture
        await server.push({ key, problem: "disconnected" });
        return;
      }
      if (camera.videoWidth && !track.muted) {
        canvas.width = Math.min(MAX_WIDTH, camera.videoWidth);
        canvas.height = Math.round((canvas.width * camera.videoHeight) / camera.videoWidth);
        canvas.getContext("2d").drawImage(camera, 0, 0, canvas.width, canvas.height);
        const picture = canvas.toDataURL("image/jpeg", JPEG_QUALITY).split(",")[1];
        await server.push({ key, picture }).catch(() => {}); // the next one may arrive
      }
      await wait(1000 / (PUSHES_PER_FRAME * fps));
    }
  }

  function show() {
    const session = props.value ? JSON.parse(props.value) : null;
    if ((session?.key ?? null) === current) return;
    end();
    if (!session) return;
    current = session.key;
    picture.hidden = camera.hidden = true;
    none.hidden = false;
    follow(current);
    if (session.is_webcam) send(current, session.fps);
  }

  const before = readKept("recording");
  if (before)
    none.textContent = `The session ended with its page. It was recorded as ${before}: open it in the tab Batch.`;
  watch("value", show);
  show();
}
