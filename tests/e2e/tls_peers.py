"""TLS towards clients of other libraries: gnutls-cli, node (https and http2) and Chromium."""
import json
import re
import subprocess

from lib import process
from lib.peers import find
from lib.tap import equal, group, main, test, true
from lib.tls import make_certificate, with_tls

REQUEST = "GET / HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n"


def gnutls(sluice, certificate, priority, *more):
    """(exit status, output) of a request by gnutls-cli, of which --resume makes two connections."""
    done = subprocess.run([find("gnutls-cli"), "--x509cafile", certificate, "--sni-hostname", "api.test",
                           "--verify-hostname", "api.test", "--priority", priority, *more,
                           "-p", str(sluice.port.number), "127.0.0.1"],
                          input=REQUEST, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout + done.stderr


@group("gnutls-cli")
def gnutls_cli(t):
    if not find("gnutls-cli"):
        t.skip("gnutls-cli is not installed")
    kinds = {"P-256": "ec -pkeyopt ec_paramgen_curve:P-256", "RSA": "rsa:2048"}
    for name, key in kinds.items():
        certificate = make_certificate(t, name + ".pem", ["api.test"], key=key)
        sluice = with_tls(t, t.origin(), [certificate])
        for version in ("1.2", "1.3"):
            with t.point(f"{name}, TLS {version}"):
                status, output = gnutls(sluice, certificate, f"NORMAL:-VERS-ALL:+VERS-TLS{version}")
                true("HTTP/1.1 200" in output, output)
                true(re.search(rf"\(TLS{version}[-)]", output), output)
                equal(status, 0, output)
            with t.point(f"{name}, TLS {version}: a session that is resumed"):
                status, output = gnutls(sluice, certificate, f"NORMAL:-VERS-ALL:+VERS-TLS{version}", "--resume",
                                        "--waitresumption")
                true("This is a resumed session" in output and "HTTP/1.1 200" in output, output)
        with t.point(f"{name}: TLS 1.1 is refused, with an alert"):
            status, output = gnutls(sluice, certificate, "NORMAL:-VERS-ALL:+VERS-TLS1.1:%COMPAT")
            true(status != 0 and "HTTP/1.1 200" not in output, output)


NODE = """
const https = require('https'), http2 = require('http2'), fs = require('fs');
const [port, ca] = [process.argv[2], fs.readFileSync(process.argv[3])];
const base = {host: '127.0.0.1', port, servername: 'api.test', ca};

function ask(options) {
  return new Promise((resolve, reject) => {
    const request = https.request({...base, path: '/', headers: {Host: 'api.test'}, ...options}, response => {
      const socket = response.socket;
      const seen = [response.statusCode, socket.getProtocol(), socket.isSessionReused(), socket.authorized];
      response.resume();
      response.on('end', () => resolve(seen));
    });
    request.on('error', reject);
    request.end();
  });
}

(async () => {
  const seen = {};
  for (const version of ['TLSv1.2', 'TLSv1.3']) {
    let session;
    const first = new https.Agent({minVersion: version, maxVersion: version, maxCachedSessions: 0});
    first.on('keylog', () => {});
    const agent = new https.Agent({minVersion: version, maxVersion: version});
    seen[version] = [await ask({agent}), await ask({agent})];
  }
  const kept = new https.Agent({keepAlive: true, maxSockets: 1});
  seen.kept = await Promise.all([1, 2, 3].map(() => ask({agent: kept})));
  kept.destroy();
  try {
    await ask({servername: 'other.test', agent: new https.Agent()});
    seen.wrong = 'served';
  } catch (error) {
    seen.wrong = error.code;
  }
  const session = http2.connect(`https://api.test:${port}`, {...base});
  seen.http2 = await new Promise((resolve, reject) => {
    session.on('error', reject);
    const stream = session.request({':path': '/'});
    stream.on('response', headers => resolve([headers[':status'], session.alpnProtocol]));
    stream.end();
  });
  session.close();
  console.log(JSON.stringify(seen));
})().catch(error => { console.error(error); process.exit(1); });
"""


@test("node: https of both versions, resumed and kept alive, a wrong name, and HTTP/2")
def node(t):
    if not find("node"):
        t.skip("node is not installed")
    certificate = make_certificate(t, "api.pem", ["api.test"])
    sluice = with_tls(t, t.origin(), [certificate], listener="protocols = h2, http/1.1")
    program = t.file("peer.js", NODE)
    done = subprocess.run([find("node"), program, str(sluice.port.number), certificate], capture_output=True, text=True,
                          timeout=120, check=False)
    equal(done.returncode, 0, done.stderr)
    seen = json.loads(done.stdout)
    for version in ("TLSv1.2", "TLSv1.3"):
        equal(seen[version], [[200, version, False, True], [200, version, True, True]], version)
    equal([each[0] for each in seen["kept"]], [200, 200, 200], "kept alive")
    equal(seen["wrong"], "ERR_TLS_CERT_ALTNAME_INVALID", "a wrong name")
    equal(seen["http2"], [200, "h2"], "HTTP/2")


PAGE = b"""<!DOCTYPE html><title>page</title><pre id="seen">nothing</pre>
<script>
fetch("/data").then(async answer => {
  const [timing] = performance.getEntriesByType("navigation");
  document.getElementById("seen").textContent =
    answer.status + " " + await answer.text() + " " + location.protocol + " " + timing.nextHopProtocol;
}).catch(error => { document.getElementById("seen").textContent = "failed: " + error; });
</script>
"""


@test("Chromium shows a page over https, by HTTP/2 and by HTTP/1.1", workers=[2])
def browser(t):
    chromium = find("chromium")
    if not chromium:
        t.skip("chromium is not installed")

    def serve(x):
        is_data = x.request.target == "/data"
        x.reply(body=b"data" if is_data else PAGE, fields=[("Content-Type", "text/plain" if is_data else "text/html")])
    certificate = make_certificate(t, "api.pem", ["api.test"])
    for protocols, hop in (("h2, http/1.1", "h2"), ("http/1.1", "http/1.1")):
        sluice = with_tls(t, t.origin(serve), [certificate], listener=f"protocols = {protocols}")
        status, output = process.run([chromium, "--headless", "--no-sandbox", "--disable-gpu", "--no-proxy-server",
                                      "--ignore-certificate-errors", "--host-resolver-rules=MAP api.test 127.0.0.1",
                                      f"--user-data-dir={t.path('chromium' + hop.replace('/', ''))}",
                                      "--virtual-time-budget=10000", "--dump-dom",
                                      f"https://api.test:{sluice.port.number}/page"])
        seen = re.search(r"<pre id=.seen.>([^<]+)</pre>", output)
        true(status == 0 and seen, f"the page was not shown: {output[-2000:]}")
        equal(seen.group(1), f"200 data https: {hop}", "what the page saw")


main()
