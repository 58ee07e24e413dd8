// The page of a host of MCP Apps, with the official bridge. show renders the app of a tool's call beside its result, as a host does; what
// the app asks of its server goes through the server of this page.
import { AppBridge, PostMessageTransport } from "@modelcontextprotocol/ext-apps/app-bridge";

window.messages = []; // what apps said in the chat
window.heights = [];  // the sizes that they reported
window.capabilities = { serverTools: {}, message: { text: {} } };

window.show = async (url, args, result, context) => {
  document.body.replaceChildren();
  const frame = document.createElement("iframe");
  frame.sandbox = "allow-scripts allow-same-origin"; // of another origin
  frame.style.cssText = "border: 0; width: 100%; height: 800px";
  frame.src = url;
  document.body.append(frame);
  const bridge = new AppBridge(null, { name: "host", version: "1" }, window.capabilities, { hostContext: context });
  const initialized = new Promise(resolve => { bridge.oninitialized = resolve; });
  bridge.oncalltool = async params => (await fetch("/call", { method: "POST", body: JSON.stringify(params) })).json();
  bridge.onmessage = async ({ content }) => {
    if (!window.capabilities.message) return { isError: true };
    window.messages.push(content.map(one => one.text).join(""));
    return {};
  };
  bridge.onsizechange = ({ height }) => { window.heights.push(height); };
  await bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow));
  await initialized;
  await bridge.sendToolInput({ arguments: args });
  await bridge.sendToolResult(result);
};
