// SPDX-License-Identifier: MIT
// Writes and reads back a file the way C++ checkpoint engines do.
// usage: ofstream FILE
#include <fstream>
#include <vector>

int main(int argc, char **argv)
{
	std::vector<char> payload(1 << 20, 'p'), back(payload.size());

	if (argc != 2)
		return 1;
	{
		std::ofstream file(argv[1], std::ios::binary | std::ios::trunc);
		file << "header of the file\n";
		file.write(payload.data(), payload.size());
		file.seekp(3 << 20);
		file.write(payload.data(), 4096);
		file.put('x');
	}
	std::fstream file(argv[1], std::ios::binary | std::ios::in | std::ios::out);
	file.seekg(100);
	file.read(back.data(), back.size());
	file.seekp(5);
	file.write("HELLO", 5);
	return file ? 0 : 1;
}
