package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/meshdns/meshdns/config"
	"github.com/meshdns/meshdns/document"
	"github.com/meshdns/meshdns/sources/files"
	"github.com/meshdns/meshdns/sources/kubernetes"
)

// finding is a problem as `check -o json` prints it.
type finding struct {
	File     string `json:"file"`
	Line     int    `json:"line"`   // from 1; 0 when the whole file is meant
	Column   int    `json:"column"` // from 1; 0 like line
	Field    string `json:"field"`
	Severity string `json:"severity"` // error or warning
	Message  string `json:"message"`
}

func newCheck() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check --config FILE",
		Short: "Say all that is wrong with a configuration",
		Long: `Read a configuration and the documents and manifests that it names, and print all that
is wrong with them, one problem a line:

  FILE:LINE:COLUMN: FIELD: message

Warnings alone are no failure. Clusters are not asked.`,
		Args: cobra.NoArgs,
	}
	out := addFormat(cmd)
	path := cmd.Flags().String("config", "", "configuration `file`")
	_ = cmd.MarkFlagRequired("config") // fails only for a flag that does not exist
	cmd.RunE = runner(func(cmd *cobra.Command, _ []string) error {
		problems := checkAll(*path)
		if err := printFindings(cmd.OutOrStdout(), problems, *out); err != nil {
			return err
		}
		return conclude(cmd.ErrOrStderr(), *path, problems)
	})
	return cmd
}

// checkAll finds the problems of the configuration, then of what it names.
func checkAll(path string) []document.Problem {
	cfg, problems := config.Load(path)
	if cfg == nil {
		return problems
	}
	if doc := configDocument(path); doc != nil {
		problems = append(problems, checkKubeconfigs(doc, cfg)...)
		problems = append(problems, checkFolders(doc, cfg)...)
	}
	document.Sort(problems)
	if cfg.RegistryDir != "" && exists(cfg.RegistryDir) {
		problems = append(problems, files.Check(cfg.RegistryDir, registryOptions(cfg))...)
	}
	for _, c := range cfg.Clusters {
		if c.Manifests != "" && exists(c.Manifests) {
			problems = append(problems, checkManifests(c.Manifests)...)
		}
	}
	return problems
}

// checkFolders finds folders that are not there, where they are named: a server waits for
// them, and what they would hold is unknown.
func checkFolders(doc *document.Document, cfg *config.Config) []document.Problem {
	var problems []document.Problem
	missing := func(field, folder string) {
		if folder != "" && !exists(folder) {
			problems = append(problems, doc.Errorf(field, "%s does not exist", folder))
		}
	}
	missing("registryDir", cfg.RegistryDir)
	for i, c := range cfg.Clusters {
		missing(fmt.Sprintf("clusters[%d].manifests", i), c.Manifests)
	}
	return problems
}

// configDocument is the configuration once more, for the places of its fields; nil when
// config.Load has said what is wrong with it.
func configDocument(path string) *document.Document {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	docs, _ := document.Read(path, content)
	if len(docs) == 0 {
		return nil
	}
	return docs[0]
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func checkManifests(path string) []document.Problem {
	problems, err := kubernetes.CheckManifests(path)
	if err != nil {
		problems = append(problems, document.Problem{File: path, Message: err.Error()})
	}
	return problems
}

// checkKubeconfigs warns of clusters that could not be asked as things stand: the file
// may well come later, and a server waits for it.
func checkKubeconfigs(doc *document.Document, cfg *config.Config) []document.Problem {
	var problems []document.Problem
	for i, c := range cfg.Clusters {
		if c.Kubeconfig == "" {
			continue
		}
		if field, message := checkKubeconfig(c); message != "" {
			problems = append(problems, doc.Warnf(fmt.Sprintf("clusters[%d].%s", i, field), "%s", message))
		}
	}
	return problems
}

func checkKubeconfig(c config.Cluster) (field, message string) {
	contexts, current, _, err := kubernetes.Contexts(c.Kubeconfig)
	wanted := c.Context
	switch {
	case err != nil:
		return "kubeconfig", fmt.Sprintf("not usable as it is now: %v", err)
	case wanted == "" && current == "":
		return "kubeconfig", fmt.Sprintf("%s has no current context, and no context is given here", c.Kubeconfig)
	case wanted == "":
		wanted = current
	}
	for _, context := range contexts {
		if context.Name == wanted {
			return "", ""
		}
	}
	return "context", fmt.Sprintf("%s has no context %q", c.Kubeconfig, wanted)
}

func printFindings(w io.Writer, problems []document.Problem, out format) error {
	if out == formatText {
		printProblems(w, problems)
		return nil
	}
	findings := []finding{}
	for _, p := range problems {
		severity := "error"
		if p.Severity == document.Warning {
			severity = "warning"
		}
		findings = append(findings, finding{p.File, p.Line, p.Column, p.Field, severity, p.Message})
	}
	return writeJSON(w, findings)
}

// conclude says how many problems there are, apart from the list, and fails on errors.
func conclude(stderr io.Writer, path string, problems []document.Problem) error {
	warnings := 0
	for _, p := range problems {
		if p.Severity == document.Warning {
			warnings++
		}
	}
	fmt.Fprintf(stderr, "%s: errors: %d, warnings: %d\n", path, len(problems)-warnings, warnings)
	if document.HasErrors(problems) {
		return errSilent
	}
	return nil
}
