package harness

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"path/filepath"
	"time"
)

// pki is the files that an API server needs to prove who it is and to sign tokens. They
// are made before it starts, so that a kubeconfig can exist before its server does.
type pki struct {
	cert, key      string // serving certificate (its own authority) and key
	certPEM        []byte // for kubeconfigs
	signing        string // service-account signing key
	signingPublics string // service-account public key
}

// newPKI writes the files of one API server into dir.
func newPKI(dir string) (*pki, error) {
	servingKey, err := writeKey(dir, "serving.key")
	if err != nil {
		return nil, err
	}
	certPEM, err := selfSigned(servingKey)
	if err != nil {
		return nil, err
	}
	cert, err := WriteFile(dir, "serving.crt", string(certPEM))
	if err != nil {
		return nil, err
	}
	signingKey, err := writeKey(dir, "sa.key")
	if err != nil {
		return nil, err
	}
	public, err := x509.MarshalPKIXPublicKey(&signingKey.PublicKey)
	if err != nil {
		return nil, fmt.Errorf("marshal the service-account key: %w", err)
	}
	publics, err := WriteFile(dir, "sa.pub", pemText("PUBLIC KEY", public))
	if err != nil {
		return nil, err
	}
	return &pki{
		cert: cert, key: filepath.Join(dir, "serving.key"), certPEM: certPEM,
		signing: filepath.Join(dir, "sa.key"), signingPublics: publics,
	}, nil
}

// writeKey makes a P-256 key and writes it to a file of dir.
func writeKey(dir, name string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make %s: %w", name, err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("marshal %s: %w", name, err)
	}
	_, err = WriteFile(dir, name, pemText("EC PRIVATE KEY", der))
	return key, err
}

// selfSigned makes a certificate for 127.0.0.1 that is valid for a day.
func selfSigned(key *ecdsa.PrivateKey) ([]byte, error) {
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(time.Now().UnixNano()),
		Subject:               pkix.Name{CommonName: "meshdns e2e"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		DNSNames:              []string{"localhost"},
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("make the serving certificate: %w", err)
	}
	return []byte(pemText("CERTIFICATE", der)), nil
}

func pemText(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}
