package document

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// setScalar sets out from the scalar n. It panics for types that Decode does not
// document: that is a fault of the program, not of the input.
func setScalar(n *yaml.Node, out reflect.Value) error {
	if out.Type() == reflect.TypeFor[time.Duration]() {
		return setDuration(n, out)
	}
	switch out.Kind() {
	case reflect.String:
		return setText(n, out)
	case reflect.Bool:
		return setBool(n, out)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return setInt(n, out)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return setUint(n, out)
	}
	panic(fmt.Sprintf("document: cannot decode into %s", out.Type()))
}

// setText takes text only: 010 or true without quotes would be another value to an API
// server, which refuses them too. Plain dates are text.
func setText(n *yaml.Node, out reflect.Value) error {
	if tag := n.ShortTag(); tag != "!!str" && tag != "!!timestamp" {
		return fmt.Errorf("want text, got %s: put it into quotes", shape(n))
	}
	out.SetString(n.Value)
	return nil
}

func setBool(n *yaml.Node, out reflect.Value) error {
	if value := strings.ToLower(n.Value); n.ShortTag() == "!!bool" && (value == "true" || value == "false") {
		out.SetBool(value == "true")
		return nil
	}
	return fmt.Errorf("want true or false, got %s", shape(n))
}

func setDuration(n *yaml.Node, out reflect.Value) error {
	d, err := time.ParseDuration(n.Value)
	if err != nil {
		return fmt.Errorf("want a duration such as 5s, 10m or 24h, got %s", shape(n))
	}
	out.SetInt(int64(d))
	return nil
}

func setInt(n *yaml.Node, out reflect.Value) error {
	if err := wantDecimal(n); err != nil {
		return err
	}
	bits := out.Type().Bits()
	v, err := strconv.ParseInt(n.Value, 10, bits)
	if errors.Is(err, strconv.ErrRange) {
		return fmt.Errorf("%s is out of range: %d to %d", n.Value, int64(-1)<<(bits-1), int64(1)<<(bits-1)-1)
	}
	if err != nil {
		return fmt.Errorf("want a whole number in decimal digits, got %s", n.Value)
	}
	out.SetInt(v)
	return nil
}

func setUint(n *yaml.Node, out reflect.Value) error {
	if err := wantDecimal(n); err != nil {
		return err
	}
	bits := out.Type().Bits()
	v, err := strconv.ParseUint(strings.TrimPrefix(n.Value, "+"), 10, bits)
	if errors.Is(err, strconv.ErrRange) || n.Value[0] == '-' {
		return fmt.Errorf("%s is out of range: 0 to %d", n.Value, uint64(1)<<bits-1)
	}
	if err != nil {
		return fmt.Errorf("want a whole number in decimal digits, got %s", n.Value)
	}
	out.SetUint(v)
	return nil
}

// wantDecimal refuses what is no whole number, and those with a leading zero: they are
// octal to some readers and decimal to others.
func wantDecimal(n *yaml.Node) error {
	digits := strings.TrimLeft(n.Value, "+-")
	if len(digits) > 1 && digits[0] == '0' {
		return fmt.Errorf("want a whole number in decimal digits without a leading zero, got %s", n.Value)
	}
	switch n.ShortTag() {
	case "!!int":
		return nil
	case "!!float": // also whole numbers beyond 64 bits
		if digits != "" && strings.Trim(digits, "0123456789") == "" {
			return nil
		}
	}
	return fmt.Errorf("want a whole number, got %s", shape(n))
}
