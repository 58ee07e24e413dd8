package diskstore

import "encoding/binary"

// Forge changes the header of a file and corrects its checksum.
func Forge(file []byte, name string, change func(header []byte)) {
	change(file[:headerSize])
	var h header
	if _, err := binary.Decode(file, binary.LittleEndian, &h); err != nil {
		panic(err)
	}
	h.seal(name, string(file[headerSize:headerSize+int(h.Owner)]))
	if _, err := binary.Encode(file, binary.LittleEndian, h); err != nil {
		panic(err)
	}
}
