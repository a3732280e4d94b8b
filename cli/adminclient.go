package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

const (
	defaultAdmin = "http://127.0.0.1:9253"
	adminTimeout = 10 * time.Second
	maxAnswer    = 64 << 20 // bytes; a page of 10,000 services is about 2 MB
)

// adminClient asks the admin API of a running server.
type adminClient struct {
	base *url.URL
	http http.Client
}

// newAdminClient takes the value of --admin: a URL, or just host:port.
func newAdminClient(text string) (*adminClient, error) {
	base, err := url.Parse(text)
	if err != nil || base.Host == "" {
		base, err = url.Parse("http://" + text)
	}
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, usagef("--admin %q is not a URL such as %s", text, defaultAdmin)
	}
	return &adminClient{base: base, http: http.Client{Timeout: adminTimeout}}, nil
}

// refusal is the admin API's answer to a request that it does not like.
type refusal struct {
	code    int
	message string
}

func (r *refusal) Error() string { return r.message }

// get decodes the JSON answer of a path into into. A code other than 200 and those in
// alsoFine is a *refusal.
func (c *adminClient) get(ctx context.Context, path string, query url.Values, into any, alsoFine ...int) error {
	target := c.base.JoinPath(path)
	target.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", "application/json")
	response, err := c.http.Do(request)
	if err != nil {
		return fmt.Errorf("asking the admin API (is the server running? --admin says where): %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("reading the answer of %s: %w", target, err)
	}
	return c.decode(target, response, body, into, alsoFine)
}

func (c *adminClient) decode(target *url.URL, response *http.Response, body []byte, into any, alsoFine []int) error {
	fine := response.StatusCode == http.StatusOK
	for _, code := range alsoFine {
		fine = fine || response.StatusCode == code
	}
	if !fine {
		var said struct{ Error string }
		if json.Unmarshal(body, &said) != nil || said.Error == "" {
			said.Error = fmt.Sprintf("%s answered %s: is this a meshdns admin API?", target, response.Status)
		}
		return &refusal{code: response.StatusCode, message: said.Error}
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%s did not answer with JSON (is this a meshdns admin API?): %w", target, err)
	}
	return nil
}
