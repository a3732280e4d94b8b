package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of times in /proc/PID/stat: USER_HZ is 100 wherever Go runs on Linux.
const tick = time.Second / 100

// procStat is what is used of /proc/PID/stat (proc(5)).
type procStat struct {
	parent int
	cpu    time.Duration // user and system, all threads, and children that have ended
}

// parseStat reads a line of /proc/PID/stat. The program's name may hold spaces and
// parentheses; the last parenthesis ends it.
func parseStat(line string) (procStat, error) {
	end := strings.LastIndexByte(line, ')')
	if end < 0 {
		return procStat{}, fmt.Errorf("no name in %q", line)
	}
	const parent, firstTime, lastTime = 1, 11, 14 // utime stime cutime cstime
	fields := strings.Fields(line[end+1:])
	if len(fields) <= lastTime {
		return procStat{}, fmt.Errorf("%d fields after the name in %q", len(fields), line)
	}
	var s procStat
	var err error
	if s.parent, err = strconv.Atoi(fields[parent]); err != nil {
		return procStat{}, fmt.Errorf("parent in %q: %w", line, err)
	}
	for _, field := range fields[firstTime : lastTime+1] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return procStat{}, fmt.Errorf("time in %q: %w", line, err)
		}
		s.cpu += time.Duration(ticks) * tick
	}
	return s, nil
}

// parseStatus gives the fields of /proc/PID/status or smaps_rollup that are in kB, in bytes.
func parseStatus(text string) map[string]int64 {
	fields := map[string]int64{}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) != 3 || words[2] != "kB" {
			continue
		}
		if n, err := strconv.ParseInt(words[1], 10, 64); err == nil {
			fields[strings.TrimSuffix(words[0], ":")] = n << 10
		}
	}
	return fields
}

// processTree reads all processes and gives the statistics of pid and its descendants.
func processTree(root int) (map[int]procStat, error) {
	paths, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	all := map[int]procStat{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			return nil, err
		}
		if all[pid], err = parseStat(string(text)); err != nil {
			return nil, err
		}
	}
	if _, ok := all[root]; !ok {
		return nil, fmt.Errorf("process %d has ended", root)
	}
	return descendants(all, root), nil
}

// descendants are root and what it and its children have started.
func descendants(all map[int]procStat, root int) map[int]procStat {
	tree := map[int]procStat{root: all[root]}
	for grown := true; grown; {
		grown = false
		for pid, s := range all {
			_, in := tree[pid]
			if _, above := tree[s.parent]; above && !in {
				tree[pid], grown = s, true
			}
		}
	}
	return tree
}

// cpuOf is user and system time of a process and its descendants so far, those that have
// ended included.
func cpuOf(pid int) (time.Duration, error) {
	tree, err := processTree(pid)
	var sum time.Duration
	for _, s := range tree {
		sum += s.cpu
	}
	return sum, err
}

// memory of a process tree in bytes.
type memory struct {
	Resident int64 // of several processes the shared parts count once (PSS)
	Peak     int64 // the highest resident size so far, summed over processes
}

func memoryOf(pid int) (memory, error) {
	tree, err := processTree(pid)
	if err != nil {
		return memory{}, err
	}
	var m memory
	for pid := range tree {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			return memory{}, err
		}
		fields := parseStatus(string(status))
		m.Peak += fields["VmHWM"]
		if len(tree) == 1 {
			m.Resident = fields["VmRSS"]
			continue
		}
		rollup, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			return memory{}, err
		}
		m.Resident += parseStatus(string(rollup))["Pss"]
	}
	return m, nil
}
