package scenarios

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// get does "get PATH": a page of the admin API. Below it: "status CODE" (200 where
// absent), "body REGEXP", "not-body REGEXP", "metric NAME{…} VALUE", and of JSON "field
// KEY=VALUE…", "item KEY=VALUE…" (one element of the list has them all), "no-item
// KEY=VALUE…", "items COUNT", "step REGEXP".
func (r *run) get(ctx context.Context, words []string, body []Line) error {
	if len(words) != 1 {
		return errors.New("want: get PATH")
	}
	return r.getPage(ctx, words[0], body)
}

// explain does "explain NAME [TYPE] [client=ADDRESS]": get of the explanation.
func (r *run) explain(ctx context.Context, words []string, body []Line) error {
	set, rest, err := parseSettings(words, "client")
	if err != nil {
		return err
	}
	if len(rest) == 0 || len(rest) > 2 {
		return errors.New("want: explain NAME [TYPE] [client=ADDRESS]")
	}
	query := url.Values{"name": {rest[0]}}
	if len(rest) == 2 {
		query.Set("type", rest[1])
	}
	if client := set["client"]; client != "" {
		query.Set("client", client)
	}
	return r.getPage(ctx, "/api/v1/explain?"+query.Encode(), body)
}

func (r *run) getPage(ctx context.Context, path string, body []Line) error {
	status, text, err := httpGet(ctx, "http://"+r.vars["admin"]+path)
	if err != nil {
		return err
	}
	wantStatus := "200"
	for _, line := range body {
		if line.Words[0] == "status" && len(line.Words) == 2 {
			wantStatus = line.Words[1]
			continue
		}
		if err := checkPage(text, line); err != nil {
			return fmt.Errorf("line %d: %s: %w", line.Number, path, err)
		}
	}
	if strconv.Itoa(status) != wantStatus {
		return fmt.Errorf("%s: want status %s, got %d:\n%s", path, wantStatus, status, text)
	}
	return nil
}

func checkPage(text string, line Line) error {
	if len(line.Words) < 2 {
		return errors.New("want a keyword and a value")
	}
	switch line.Words[0] {
	case "body":
		return matchAll("the page", text, line.Words[1:])
	case "not-body":
		return matchNone("the page", text, line.Words[1])
	case "metric":
		if len(line.Words) != 3 {
			return errors.New("want: metric NAME{…} VALUE")
		}
		return checkMetric(text, line.Words[1], line.Words[2])
	}
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		return fmt.Errorf("the page is no JSON: %w:\n%s", err, text)
	}
	return checkJSON(value, text, line)
}

func checkJSON(value any, text string, line Line) error {
	items := listOf(value)
	switch line.Words[0] {
	case "field":
		return wantFields(value, line.Words[1:])
	case "items":
		return wantSpan("items", line.Words[1], int64(len(items)))
	case "item", "no-item":
		found := false
		for _, item := range items {
			found = found || wantFields(item, line.Words[1:]) == nil
		}
		if found != (line.Words[0] == "item") {
			return fmt.Errorf("%s: found %t in\n%s", line.Text, found, text)
		}
		return nil
	case "step":
		object, _ := value.(map[string]any)
		return matchAll("steps", asText(object["steps"]), line.Words[1:])
	}
	return fmt.Errorf("unknown expectation %q", line.Words[0])
}

// listOf is the list of a page: the page itself, or its items or endpoints.
func listOf(value any) []any {
	if object, ok := value.(map[string]any); ok {
		value = object["items"]
		if value == nil {
			value = object["endpoints"]
		}
	}
	list, _ := value.([]any)
	return list
}

var fieldWord = regexp.MustCompile(`^([A-Za-z]+)([=~])(.*)$`)

// wantFields: each word is KEY=VALUE, or KEY~REGEXP, of a field of the object.
func wantFields(value any, words []string) error {
	object, ok := value.(map[string]any)
	if !ok {
		return errors.New("this is no JSON object")
	}
	for _, word := range words {
		parts := fieldWord.FindStringSubmatch(word)
		if parts == nil {
			return fmt.Errorf("%q: want KEY=VALUE or KEY~REGEXP", word)
		}
		got, ok := object[parts[1]]
		if !ok {
			return fmt.Errorf("there is no field %s", parts[1])
		}
		if parts[2] == "~" {
			if err := matchAll(parts[1], asText(got), parts[3:]); err != nil {
				return err
			}
		} else if asText(got) != parts[3] {
			return fmt.Errorf("%s: want %q, got %q", parts[1], parts[3], asText(got))
		}
	}
	return nil
}

// asText is a JSON value as a script writes it; elements of a list stand on lines.
func asText(value any) string {
	switch value := value.(type) {
	case string:
		return value
	case float64:
		return strconv.FormatFloat(value, 'f', -1, 64)
	case []any:
		var lines []string
		for _, each := range value {
			lines = append(lines, asText(each))
		}
		return strings.Join(lines, "\n")
	default:
		return fmt.Sprint(value)
	}
}

// wantMetric: the metric has that value now.
func (r *run) wantMetric(ctx context.Context, metric, want string) error {
	_, text, err := httpGet(ctx, "http://"+r.vars["admin"]+"/metrics")
	if err != nil {
		return err
	}
	return checkMetric(text, metric, want)
}

// checkMetric finds metric, written NAME or NAME{label="value",…}, in a page of the
// Prometheus text format; labels that are not named may be any. Values of several
// matching series are added up.
func checkMetric(page, metric, want string) error {
	name, labels, _ := strings.Cut(strings.TrimSuffix(metric, "}"), "{")
	var total float64
	found := false
	for _, line := range strings.Split(page, "\n") {
		if !seriesMatches(line, name, labels) {
			continue
		}
		value, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		if err != nil {
			return fmt.Errorf("metric line %q: %w", line, err)
		}
		found, total = true, total+value
	}
	if !found && want != "absent" {
		return fmt.Errorf("there is no metric %s", metric)
	}
	if want == "absent" {
		if found {
			return fmt.Errorf("metric %s is there", metric)
		}
		return nil
	}
	return wantSpan("metric "+metric, want, int64(total))
}

func seriesMatches(line, name, labels string) bool {
	rest, ok := strings.CutPrefix(line, name)
	if !ok || rest == "" || rest[0] != ' ' && rest[0] != '{' {
		return false
	}
	for _, label := range strings.Split(labels, ",") {
		key, value, _ := strings.Cut(label, "=")
		if key != "" && !strings.Contains(rest, key+`="`+strings.Trim(value, `"`)+`"`) {
			return false
		}
	}
	return true
}
