package login

import (
	"sync"

	"github.com/zalando/go-keyring"
)

// memoryKeyring is a keyring with the limits of Windows.
type memoryKeyring struct {
	mu      sync.Mutex
	entries map[string]string
	err     error         // the error of every call
	hang    chan struct{} // every call waits until hang is closed; nil: calls do not wait
	maximum int           // the most bytes of a value; 0: no limit
}

func (m *memoryKeyring) wait() error {
	m.mu.Lock()
	hang, err := m.hang, m.err
	m.mu.Unlock()
	if hang != nil {
		<-hang
	}
	return err
}

func (m *memoryKeyring) Get(_, key string) (string, error) {
	if err := m.wait(); err != nil {
		return "", err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	value, ok := m.entries[key]
	if !ok {
		return "", keyring.ErrNotFound
	}
	return value, nil
}

func (m *memoryKeyring) Set(_, key, value string) error {
	if err := m.wait(); err != nil {
		return err
	}
	if m.maximum > 0 && len(value) > m.maximum {
		return keyring.ErrSetDataTooBig
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.entries == nil {
		m.entries = map[string]string{}
	}
	m.entries[key] = value
	return nil
}

func (m *memoryKeyring) Delete(_, key string) error {
	if err := m.wait(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.entries[key]; !ok {
		return keyring.ErrNotFound
	}
	delete(m.entries, key)
	return nil
}

func (m *memoryKeyring) size() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.entries)
}
