package admin

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestExport(t *testing.T) {
	response, body := get(t, newMesh(), "/api/v1/zones/Mesh.")
	assert.Equal(t, http.StatusOK, response.StatusCode)
	assert.Equal(t, "text/dns; charset=us-ascii", response.Header.Get("Content-Type"), "RFC 4027")
	assert.Equal(t, "; zone mesh\n; end of zone\n", body)

	response, body = get(t, newMesh(), "/api/v1/zones/nope")
	assert.Equal(t, http.StatusNotFound, response.StatusCode)
	assert.Equal(t, "application/json; charset=utf-8", response.Header.Get("Content-Type"))
	assert.JSONEq(t, `{"error": "no zone \"nope\" is served here"}`, body)
}

// TestExportCutOff: a client notices that a zone file is not whole.
func TestExportCutOff(t *testing.T) {
	server := httptest.NewServer(newServer(newMesh()).Handler())
	defer server.Close()
	response, err := server.Client().Get(server.URL + "/api/v1/zones/cut")
	if err == nil { // the first piece may have come
		defer response.Body.Close()
		_, err = io.ReadAll(response.Body)
	}
	require.Error(t, err)
}
