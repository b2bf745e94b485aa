// Uploads by node's fetch: upload.mjs URL BYTES length|chunked COUNT. Prints a line of JSON: the
// status of each answer, or the error that came in its place.
const [url, size, mode, count] = process.argv.slice(2);

function chunked(left) {
	return new ReadableStream({
		pull(controller) {
			if (left <= 0) {
				controller.close();
				return;
			}
			controller.enqueue(new Uint8Array(Math.min(left, 65536)));
			left -= 65536;
		},
	});
}

const outcomes = [];
for (let i = 0; i < Number(count); i++) {
	try {
		const body = mode === "length" ? new Uint8Array(Number(size)) : chunked(Number(size));
		const answer = await fetch(url, { method: "POST", body, duplex: "half" });
		await answer.arrayBuffer();
		outcomes.push(answer.status);
	} catch (error) {
		outcomes.push(`${error}: ${error.cause}`);
	}
}
console.log(JSON.stringify(outcomes));
