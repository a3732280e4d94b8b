package cli

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"

	"github.com/meshdns/meshdns/config"
	"github.com/meshdns/meshdns/document"
	"github.com/meshdns/meshdns/sources/kubernetes"
)

// loader reads the configuration, at the start and again at every change.
type loader struct {
	path       string   // of the configuration file; "" reads the kubeconfig's contexts
	clusterset []string // contexts that form the cluster set, without a file
	adjust     func(*config.Config)
}

// loaded is a good configuration.
type loaded struct {
	*config.Config
	kubeconfig string // of clusters that name none
	content    []byte // of the file
	warnings   []document.Problem
}

// badConfig is a configuration with errors.
type badConfig struct {
	path     string
	problems []document.Problem
}

func (b *badConfig) Error() string {
	return fmt.Sprintf("%s is not usable; `meshdns check` prints the same: %s", b.path, b.problems[0])
}

// load reads the file, or the kubeconfig's contexts.
func (l *loader) load() (*loaded, error) {
	if l.path == "" {
		return l.fromContexts()
	}
	content, err := os.ReadFile(l.path)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	return l.parse(content)
}

// parse is load with the file's content read by somebody else.
func (l *loader) parse(content []byte) (*loaded, error) {
	cfg, problems := config.Parse(l.path, content)
	if document.HasErrors(problems) {
		return nil, &badConfig{path: l.path, problems: slices.DeleteFunc(problems, func(p document.Problem) bool {
			return p.Severity != document.Error
		})}
	}
	l.adjust(cfg)
	return &loaded{Config: cfg, content: content, warnings: problems}, nil
}

// fromContexts is what is served without a configuration (DESIGN section 5).
func (l *loader) fromContexts() (*loaded, error) {
	contexts, current, path, err := kubernetes.Contexts("")
	if errors.Is(err, kubernetes.ErrNoKubeconfig) {
		return nil, fmt.Errorf("nothing to serve: no --config, and %w; to see meshdns at work without either: meshdns serve --demo", err)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig %s: %w; without one: meshdns serve --config FILE, or --demo", path, err)
	}
	list := make([]config.Context, len(contexts))
	for i, c := range contexts {
		list[i] = config.Context(c)
	}
	cfg, err := config.FromContexts(list, current, l.clusterset)
	if err != nil {
		return nil, fmt.Errorf("serving the contexts of %s: %w", path, err)
	}
	l.adjust(cfg)
	return &loaded{Config: cfg, kubeconfig: path}, nil
}

// logProblems logs each problem on a line of its own.
func logProblems(log *slog.Logger, problems []document.Problem) {
	for _, p := range problems {
		if p.Severity == document.Warning {
			log.Warn("configuration", "problem", p.String())
		} else {
			log.Error("configuration", "problem", p.String())
		}
	}
}

// printProblems prints them for people, as check does.
func printProblems(w io.Writer, problems []document.Problem) {
	for _, p := range problems {
		fmt.Fprintln(w, p)
	}
}
