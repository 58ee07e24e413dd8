package fault

// Message is what an error says, without its code if it has one.
func Message(err error) string {
	if f, ok := As(err); ok {
		return f.Message
	}
	return err.Error()
}
