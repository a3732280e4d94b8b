package harness

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// pollEvery is the longest pause between two looks: short beside anything that a person
// or a test notices, long beside the cost of a look.
const pollEvery = 20 * time.Millisecond

// finalError ends a Poll at once.
type finalError struct{ error }

func (f finalError) Unwrap() error { return f.error }

// Final marks an error of a check as one that no further look will mend.
func Final(err error) error { return finalError{err} }

// Poll looks until check is nil, at first every millisecond, and gives the last error
// when within is over. It is the only way in which the tests wait.
func Poll(ctx context.Context, within time.Duration, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	start, pause := time.Now(), time.Millisecond
	for {
		err := check()
		if err == nil {
			return nil
		}
		var final finalError
		if errors.As(err, &final) {
			return final.error
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("after %s: %w", time.Since(start).Round(time.Millisecond), err)
		case <-time.After(pause):
			pause = min(2*pause, pollEvery)
		}
	}
}

// Hold looks for the whole time and gives the first error, if any: the way to see that
// something does not change.
func Hold(ctx context.Context, during time.Duration, check func() error) error {
	start := time.Now()
	for time.Since(start) < during {
		if err := check(); err != nil {
			return fmt.Errorf("after %s: %w", time.Since(start).Round(time.Millisecond), err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pollEvery):
		}
	}
	return nil
}
