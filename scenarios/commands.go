package scenarios

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
)

// program does "run ARGUMENT…": the program runs to its end in the work folder. Below it:
// "exit CODE" (0 where absent), "stdout REGEXP", "stderr REGEXP", "not-stdout REGEXP",
// "not-stderr REGEXP".
func (r *run) program(ctx context.Context, words []string, body []Line) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, r.Binary, words...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.Dir, &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return fmt.Errorf("running the program: %w", err)
	}
	result := commandResult{exit: cmd.ProcessState.ExitCode(), stdout: stdout.String(), stderr: stderr.String()}
	return result.check(body)
}

type commandResult struct {
	exit           int
	stdout, stderr string
}

func (c commandResult) check(body []Line) error {
	wantExit := "0"
	for _, line := range body {
		if len(line.Words) != 2 {
			return fmt.Errorf("line %d: want a keyword and one value", line.Number)
		}
		keyword, value := line.Words[0], line.Words[1]
		var err error
		switch keyword {
		case "exit":
			wantExit = value
		case "stdout":
			err = matchAll("stdout", c.stdout, []string{value})
		case "stderr":
			err = matchAll("stderr", c.stderr, []string{value})
		case "not-stdout":
			err = matchNone("stdout", c.stdout, value)
		case "not-stderr":
			err = matchNone("stderr", c.stderr, value)
		default:
			err = fmt.Errorf("unknown expectation %q", keyword)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", line.Number, err)
		}
	}
	if strconv.Itoa(c.exit) != wantExit {
		return fmt.Errorf("exit code: want %s, got %d\nstdout:\n%s\nstderr:\n%s", wantExit, c.exit, c.stdout, c.stderr)
	}
	return nil
}

func matchNone(what, text, pattern string) error {
	if err := matchAll(what, text, []string{pattern}); err != nil {
		return nil
	}
	return fmt.Errorf("%s must not match %q:\n%s", what, pattern, text)
}

// logged does "log REGEXP [COUNT]": that many lines of the server's log match; at least
// one where COUNT is absent.
func (r *run) logged(_ context.Context, words []string, _ []Line) error {
	if len(words) != 1 && len(words) != 2 {
		return errors.New("want: log REGEXP [COUNT]")
	}
	re, err := regexp.Compile("(?m)^.*(?:" + words[0] + ").*$")
	if err != nil {
		return err
	}
	want := ">=1"
	if len(words) == 2 {
		want = words[1]
	}
	return wantSpan("log lines that match "+words[0], want, int64(len(re.FindAllString(r.server.Log(), -1))))
}
