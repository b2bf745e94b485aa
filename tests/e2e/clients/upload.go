// Uploads by Go's client: upload URL BYTES length|chunked COUNT. Prints a line of JSON: the status of
// each answer, or the error that came in its place.
package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strconv"
)

func upload(url string, body []byte, mode string) interface{} {
	var reader io.Reader = bytes.NewReader(body)
	if mode == "chunked" {
		reader = struct{ io.Reader }{reader} // of which no length is known
	}
	client := &http.Client{Transport: &http.Transport{}}
	answer, err := client.Post(url, "application/octet-stream", reader)
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	if _, err = io.Copy(io.Discard, answer.Body); err != nil {
		return err.Error()
	}
	return answer.StatusCode
}

func main() {
	size, _ := strconv.Atoi(os.Args[2])
	count, _ := strconv.Atoi(os.Args[4])
	outcomes := make([]interface{}, count)
	body := make([]byte, size)
	for i := range outcomes {
		outcomes[i] = upload(os.Args[1], body, os.Args[3])
	}
	json.NewEncoder(os.Stdout).Encode(outcomes)
}
