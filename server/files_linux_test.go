package server

import "golang.org/x/sys/unix"

// raiseFiles lets this process have n files open if it may, and gives how many it can have.
func raiseFiles(n uint64) int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil || limit.Cur >= n {
		return int(min(limit.Cur, 1<<20))
	}
	raised := unix.Rlimit{Cur: n, Max: max(n, limit.Max)}
	if unix.Setrlimit(unix.RLIMIT_NOFILE, &raised) != nil { // only root goes above Max
		raised = unix.Rlimit{Cur: min(n, limit.Max), Max: limit.Max}
		if unix.Setrlimit(unix.RLIMIT_NOFILE, &raised) != nil {
			raised = limit
		}
	}
	return int(raised.Cur)
}
