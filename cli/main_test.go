package cli

import (
	"testing"

	"go.uber.org/goleak"
)

// Every serve of these tests has ended with all that it started.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
