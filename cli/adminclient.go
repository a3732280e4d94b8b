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
	return &adminClient{base: base}, nil
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
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	target := c.base.JoinPath(path)
	target.RawQuery = query.Encode()
	response, err := c.ask(ctx, target, "application/json")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("reading the answer of %s: %w", target, err)
	}
	return c.decode(target, response, body, into, alsoFine)
}

// copy writes what a path answers, of any size, to w. A code other than 200 is a *refusal.
func (c *adminClient) copy(ctx context.Context, path, mediaType string, w io.Writer) error {
	target := c.base.JoinPath(path)
	response, err := c.ask(ctx, target, mediaType)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
		if err != nil {
			return fmt.Errorf("reading the answer of %s: %w", target, err)
		}
		return refused(target, response, body)
	}
	if _, err := io.Copy(w, response.Body); err != nil {
		return fmt.Errorf("passing on the answer of %s: %w", target, err)
	}
	return nil
}

func (c *adminClient) ask(ctx context.Context, target *url.URL, mediaType string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", mediaType)
	response, err := c.http.Do(request)
	if err != nil {
		return nil, fmt.Errorf("asking the admin API (is the server running? --admin says where): %w", err)
	}
	return response, nil
}

func (c *adminClient) decode(target *url.URL, response *http.Response, body []byte, into any, alsoFine []int) error {
	fine := response.StatusCode == http.StatusOK
	for _, code := range alsoFine {
		fine = fine || response.StatusCode == code
	}
	if !fine {
		return refused(target, response, body)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%s did not answer with JSON (is this a meshdns admin API?): %w", target, err)
	}
	return nil
}

// refused is what an answer says that is not fine.
func refused(target *url.URL, response *http.Response, body []byte) error {
	var said struct{ Error string }
	if json.Unmarshal(body, &said) != nil || said.Error == "" {
		said.Error = fmt.Sprintf("%s answered %s: is this a meshdns admin API?", target, response.Status)
	}
	return &refusal{code: response.StatusCode, message: said.Error}
}
