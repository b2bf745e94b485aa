// What an application on node's http server reads in a request; see readings.py.
import http from "node:http";
import querystring from "node:querystring";

const below = (path) => path === "/admin" || path.startsWith("/admin/");

http.createServer((request, response) => {
  const [path, query] = request.url.split("?", 2);
  let resolved = path;
  try { resolved = new URL(request.url, "http://host").pathname; } catch { /* then the raw one counts */ }
  let decoded = path;
  try { decoded = decodeURIComponent(path).replace(/\/+/g, "/"); } catch { /* the same */ }
  const fields = querystring.parse(query ?? "");
  const key = [].concat(fields.key ?? []);
  const cookies = [...(request.headers.cookie ?? "").matchAll(/(?:^|; *)sid=([^;]*)/g)].map((match) => match[1]);
  let trailers = "";
  request.on("end", () => {
    trailers = request.rawTrailers.join(" ");
    response.writeHead(200, {
      "X-Area": [path, resolved, decoded].some(below) ? "admin" : "public",
      "X-Target": Buffer.from(request.url, "latin1").toString("hex"),
      "X-Key": request.headers["x-api-key"] ?? "",
      "X-Param": key.join(" "),
      "X-Cookie": cookies.join(" "),
      "X-Auth": request.headers.authorization ?? "",
      "X-For": request.headers["x-forwarded-for"] ?? "",
      "X-Trailers": trailers,
    });
    response.end("read\n");
  });
  request.resume();
}).listen(Number(process.argv[2]), "127.0.0.1");
